"""The thread of engines: turns, actions, its idleness and its end."""

import queue
import threading
from typing import Any

import pytest

from edgellm.engine_thread import EngineThread, Inbox
from edgellm.errors import EdgeLLMError
from edgellm.types import TokenEvent
from tests.mock_model import LONG, MockModel, Outbox, endless, generation, make_engine, says
from tests.waiting import PATIENCE, comes_to_rest, wait_until


@pytest.fixture
def running() -> Any:
    thread = EngineThread()
    yield thread
    thread.close()


def engine_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "edgellm-engine"}


def test_engines_take_turns(running: EngineThread) -> None:
    models = [MockModel(says("x" * 40)) for _ in range(2)]
    engines = [make_engine(model) for model in models]
    order: list[int] = []
    over = threading.Barrier(3)
    gate = threading.Event()
    running.post(lambda: None if gate.wait(PATIENCE) else None)
    for number, engine in enumerate(engines):

        def emit(event: TokenEvent | Exception, number: int = number) -> None:
            order.append(number)
            if isinstance(event, TokenEvent) and event.finish_reason:
                threading.Thread(target=over.wait, daemon=True).start()

        running.attach(engine)
        consumer, _ = generation(emit=emit)
        running.post(lambda engine=engine, consumer=consumer: engine.add(consumer))  # type: ignore[misc]
    gate.set()
    over.wait(PATIENCE)
    assert order == [0, 1] * 41


def test_an_action_that_fails_does_not_end_the_thread(
    running: EngineThread, caplog: pytest.LogCaptureFixture
) -> None:
    done = threading.Event()
    running.post(lambda: 1 / 0)  # type: ignore[arg-type]
    running.post(done.set)
    assert done.wait(PATIENCE)
    assert "inbox" in caplog.text


@pytest.mark.parametrize("error", [queue.Empty, TimeoutError, ValueError])
def test_what_an_action_raises_comes_back(running: EngineThread, error: type[Exception]) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(error):
        running.ask(fail)


def test_what_is_being_posted_comes_before_the_end() -> None:
    inbox, done = Inbox(), list[str]()
    waiting: queue.SimpleQueue[Any] = inbox._queue
    closing = threading.Thread(target=inbox.close)

    class Slow:
        """Lets somebody close the inbox while an action goes in."""

        def put(self, action: Any) -> None:
            if action is not None:
                closing.start()
                closing.join(0.1)
            waiting.put(action)

    inbox._queue = Slow()  # type: ignore[assignment]
    inbox.put(lambda: done.append("done"))
    closing.join(PATIENCE)
    inbox._queue = waiting
    action, end = inbox.take(wait=True)
    assert action is not None and end is None
    action()
    assert done == ["done"]
    with pytest.raises(EdgeLLMError, match="closed"):
        inbox.put(lambda: None)
    inbox.close()
    assert list(inbox.take(wait=False)) == []


def test_an_idle_engine_uses_no_processor_time(running: EngineThread) -> None:
    running.attach(make_engine(MockModel(says("x"))))
    comes_to_rest(engine_threads())


def test_an_answer_waits_for_blocks_that_a_pin_holds(running: EngineThread) -> None:
    """A pool of one context, a part of which is being saved."""
    engine = make_engine(MockModel(says("x" * 90)), num_blocks=16)
    running.attach(engine)
    pin = running.ask(lambda: engine.make_room([7] * 32, ()))
    ended, seen = threading.Event(), list[TokenEvent]()

    def emit(event: TokenEvent | Exception) -> None:
        assert isinstance(event, TokenEvent)
        seen.append(event)
        if event.finish_reason:
            ended.set()

    consumer, _ = generation(emit=emit)
    running.post(lambda: engine.add(consumer))
    wait_until(lambda: running.ask(lambda: engine.stats().steps and not engine.can_step))
    assert engine.has_work and not ended.is_set()
    assert pin is not None
    running.ask(lambda: engine.unpin(pin))
    assert ended.wait(PATIENCE)
    assert seen[-1].finish_reason == "length"
    running.ask(engine.check_integrity)


def test_what_is_to_come_after_a_step_comes_once_all_its_events_are_out(
    running: EngineThread,
) -> None:
    engine, told, over = make_engine(MockModel(says("hi"))), list[str](), threading.Event()

    def after() -> None:
        told.append("after")
        if told.count("end") == 2:
            over.set()

    def emit(event: TokenEvent | Exception) -> None:
        assert isinstance(event, TokenEvent)
        told.append("piece" if event.finish_reason is None else "end")
        running.after_step(after)

    answers = [generation(prompt, emit=emit)[0] for prompt in (b"a", b"b")]
    running.attach(engine)

    def add() -> None:  # both before the first step
        for answer in answers:
            engine.add(answer)

    running.post(add)
    assert over.wait(PATIENCE)
    assert told == ["piece", "piece", "after", "after"] * 2 + ["end", "end", "after", "after"]


def test_it_comes_even_when_the_thread_ends(running: EngineThread) -> None:
    begun, after = threading.Event(), threading.Event()

    def emit(event: TokenEvent | Exception) -> None:
        if isinstance(event, TokenEvent) and event.finish_reason == "abort":
            running.after_step(after.set)
        begun.set()

    engine = make_engine(endless(delay=0.01), **LONG)
    consumer, _ = generation(emit=emit, context_length=8192)
    running.attach(engine)
    running.post(lambda: engine.add(consumer))
    assert begun.wait(PATIENCE)
    running.close()
    assert after.is_set()


def test_detach_and_close_end_what_runs(running: EngineThread) -> None:
    slow = endless(delay=0.01)
    engine = make_engine(slow, **LONG)
    started = threading.Event()
    events: Outbox = []

    def emit(event: TokenEvent | Exception) -> None:
        events.append(event)
        started.set()

    running.attach(engine)
    consumer, _ = generation(emit=emit, context_length=8192)
    running.post(lambda: engine.add(consumer))
    assert started.wait(PATIENCE)
    running.detach(engine)
    assert slow.is_closed
    assert events[-1].finish_reason == "abort"  # type: ignore[union-attr]
    other = MockModel(says("x"))
    running.attach(make_engine(other))
    running.close()
    running.close()
    assert other.is_closed
    with pytest.raises(EdgeLLMError, match="closed"):
        running.attach(engine)


def test_the_thread_ends_when_nobody_holds_it() -> None:
    before = engine_threads()
    thread = EngineThread()
    (started,) = engine_threads() - before
    del thread
    started.join(PATIENCE)
    assert not started.is_alive()
