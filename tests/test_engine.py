"""The step loop with a scripted model: answers, their ends, and failures."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.completion import collect
from edgellm.consumer import OnlyTakes, Rows
from edgellm.engine import Engine
from edgellm.errors import ContextOverflow, DeviceLost, EdgeLLMError, RequestError
from edgellm.generation import Generation, Scoring
from edgellm.sequence import Sequence
from edgellm.types import Completion, SamplingParams, TokenEvent
from tests.drafters.scripted import Scripted, speculating
from tests.mock_model import (
    EOG,
    GREEDY,
    VOCAB_SIZE,
    MockModel,
    Outbox,
    generation,
    make_engine,
    noise,
    says,
)


def finish(engine: Engine, most: int = 500) -> None:
    for _ in range(most):
        if not engine.has_work:
            return
        engine.step()
        engine.check_integrity()
    raise AssertionError("the engine does not come to an end")


def answer(
    model: MockModel, prompt: bytes = b"hello", params: SamplingParams = GREEDY
) -> Completion:
    engine = make_engine(model)
    consumer, outbox = generation(prompt, params)
    engine.add(consumer)
    finish(engine)
    events = [event for event in outbox if isinstance(event, TokenEvent)]
    assert len(events) == len(outbox), outbox
    assert [event.finish_reason for event in events[:-1]] == [None] * (len(events) - 1)
    return collect(events)


def test_an_answer_ends_at_the_end_of_generation() -> None:
    done = answer(MockModel(says("sky blue")))
    assert (done.text, done.finish_reason) == ("sky blue", "stop")
    assert done.token_ids == (*b"sky blue", EOG)
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (5, 9)
    assert done.timings.queued >= 0 and done.timings.first_token > 0 and done.timings.decode >= 0
    assert done.logprobs is None


def test_max_tokens_ends_with_length() -> None:
    done = answer(MockModel(says("sky blue")), params=SamplingParams(temperature=0, max_tokens=3))
    assert (done.text, done.finish_reason, len(done.token_ids)) == ("sky", "length", 3)


def test_no_tokens_wanted_evaluates_the_prompt_alone() -> None:
    model = MockModel(says("sky"))
    done = answer(model, params=SamplingParams(temperature=0, max_tokens=0))
    assert (done.text, done.finish_reason, done.token_ids) == ("", "length", ())
    assert model.batches == [[(0, 5)]]


def test_the_context_ends_an_answer_with_length() -> None:
    done = answer(MockModel(says("x" * 100)), prompt=b"p" * 60)
    assert (done.text, done.finish_reason) == ("xxxx", "length")


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        (("blue",), "the sky is "),
        (("y is b",), "the sk"),
        (("zzz", "sky", "the sky"), ""),
        (("bluer", "is bluest"), "the sky is blue"),
    ],
)
def test_stop_strings_across_tokens(stop: tuple[str, ...], text: str) -> None:
    done = answer(
        MockModel(says("the sky is blue")), params=SamplingParams(temperature=0, stop=stop)
    )
    assert (done.text, done.finish_reason) == (text, "stop")


def test_characters_of_several_tokens_come_whole() -> None:
    engine = make_engine(MockModel(says("añ🙂b")))
    consumer, outbox = generation()
    engine.add(consumer)
    finish(engine)
    texts = [event.text for event in outbox if isinstance(event, TokenEvent)]
    assert "".join(texts) == "añ🙂b"
    assert set(texts) <= {"", "a", "ñ", "🙂", "b"}


def test_ignoring_the_end_goes_on() -> None:
    params = SamplingParams(temperature=0, ignore_eos=True, max_tokens=6)
    done = answer(MockModel(says("abc")), params=params)
    assert (done.token_ids, done.finish_reason) == ((*b"abc", 0, 0, 0), "length")


def test_an_answer_has_at_least_min_tokens() -> None:
    done = answer(MockModel(says("a")), params=SamplingParams(temperature=0, min_tokens=3))
    assert (done.token_ids, done.finish_reason) == ((ord("a"), 0, 0, EOG), "stop")


def test_logprobs_belong_to_their_tokens() -> None:
    done = answer(MockModel(says("ab")), params=SamplingParams(temperature=0, logprobs=2))
    assert done.logprobs is not None
    assert [entry.token_id for entry in done.logprobs] == list(done.token_ids)
    first = done.logprobs[0]
    assert first.text == "a"
    assert first.logprob == pytest.approx(9 - np.log(np.exp(9) + VOCAB_SIZE - 1))
    assert [token for token, _ in first.top] == [ord("a"), 0]
    assert first.top[0][1] == pytest.approx(first.logprob)
    assert first.bytes == b"a"


@settings(max_examples=25, deadline=None)
@given(
    neighbours=st.lists(st.binary(min_size=1, max_size=20), max_size=5),
    token_budget=st.integers(5, 30),
    num_blocks=st.integers(16, 40),
    sample_index=st.integers(0, 3),
)
def test_a_text_does_not_depend_on_what_runs_beside_it(
    neighbours: list[bytes], token_budget: int, num_blocks: int, sample_index: int
) -> None:
    params = SamplingParams(temperature=1.5, seed=7, max_tokens=20)
    prompt = b"once upon a time"
    alone, expected = generation(prompt, params, sample_index)
    engine = make_engine(MockModel(noise))
    engine.add(alone)
    finish(engine)
    engine = make_engine(MockModel(noise), token_budget=token_budget, num_blocks=num_blocks)
    together, outbox = generation(prompt, params, sample_index)
    for number, other in enumerate(neighbours):
        engine.add(generation(other, params)[0])
        if number == 1:
            engine.add(together)
    if len(neighbours) < 2:
        engine.add(together)
    finish(engine)
    assert together.sequence.token_ids == alone.sequence.token_ids
    tokens = [[e.token_ids for e in box if isinstance(e, TokenEvent)] for box in (expected, outbox)]
    assert tokens[0] == tokens[1]


def test_answers_of_one_request_differ() -> None:
    engine = make_engine(MockModel(noise))
    params = SamplingParams(temperature=1.5, seed=7, max_tokens=20)
    made = [generation(params=params, index=index) for index in range(6)]  # more than run at once
    for consumer, _ in made:
        engine.add(consumer)
    finish(engine)
    assert len({tuple(consumer.sequence.token_ids) for consumer, _ in made}) == 6
    assert all(outbox[-1].index == i for i, (_, outbox) in enumerate(made))  # type: ignore[union-attr]


def test_scoring_gives_the_rows_that_generation_samples_from() -> None:
    seen: list[Any] = []
    model = MockModel(noise)
    done = answer(model, params=SamplingParams(temperature=0, max_tokens=9, logprobs=0))
    tokens = [*b"hello", *done.token_ids]
    engine = make_engine(MockModel(noise))
    over: list[Exception | None] = []
    sequence = Sequence(tokens, len(tokens), GREEDY, score_from=2)
    taken: dict[int, Any] = {}

    def take(start: int, block: Any) -> None:
        seen.append((start, len(block)))
        taken.update({start + i: row.copy() for i, row in enumerate(block)})

    engine.add(Scoring("s", sequence, take, over.append))
    finish(engine)
    assert over == [None]
    assert list(taken) == list(range(2, len(tokens)))
    assert max(length for _, length in seen) <= 3
    for position in range(4, len(tokens) - 1):
        assert int(taken[position].argmax()) == tokens[position + 1]
    np.testing.assert_array_equal(taken[6], noise(tokens[:7], 5))


def test_abort_ends_running_and_waiting_answers() -> None:
    engine = make_engine(MockModel(says("x" * 50)), max_num_seqs=1)
    first, outbox = generation(request_id="a")
    second, waiting = generation(request_id="a", index=1)
    other, kept = generation(request_id="b", params=SamplingParams(temperature=0, max_tokens=2))
    for consumer in (first, second, other):
        engine.add(consumer)
    for _ in range(3):
        engine.step()
    engine.abort("a")
    engine.check_integrity()
    engine.abort("a")
    engine.abort("no such request")
    finish(engine)
    reasons = [box[-1].finish_reason for box in (outbox, waiting, kept)]  # type: ignore[union-attr]
    assert reasons == ["abort", "abort", "length"]
    last = outbox[-1]
    assert isinstance(last, TokenEvent) and last.usage is not None
    assert last.usage.completion_tokens == 3
    assert "".join(e.text for e in outbox if isinstance(e, TokenEvent)) == "xxx"


def test_who_comes_to_a_closed_engine_does_not_wait_for_it() -> None:
    """As one that is unloaded between a request's check and its turn."""
    engine = make_engine(MockModel(says("late")))
    engine.close()
    made = [generation(index=index) for index in range(2)]
    engine.add(*(answer for answer, _ in made))
    assert not engine.has_work
    assert [outbox[-1].finish_reason for _, outbox in made] == ["abort"] * 2  # type: ignore[union-attr]


def test_a_prompt_that_does_not_fit_fails_alone() -> None:
    engine = make_engine(MockModel(says("ok")))
    long, failed = generation(b"p" * 64)
    short, outbox = generation()
    engine.add(long)
    engine.add(short)
    finish(engine)
    assert isinstance(failed[0], ContextOverflow) and len(failed) == 1
    assert outbox[-1].finish_reason == "stop"  # type: ignore[union-attr]


def failed_step(error: Exception) -> tuple[Engine, Outbox, Outbox]:
    """An engine whose model failed once, and what came of the answer in that step and of one that
    waited."""
    model = MockModel(says("ok"))
    engine = make_engine(model, max_num_seqs=1)
    (first, failed), (second, waiting) = generation(), generation()
    engine.add(first)
    engine.add(second)
    model.error = error
    engine.step()
    model.error = None
    return engine, failed, waiting


def test_an_exception_in_a_step_fails_those_in_it_and_nobody_else() -> None:
    engine, failed, outbox = failed_step(ZeroDivisionError("in a kernel"))
    engine.check_integrity()
    finish(engine)
    (error,) = failed
    assert isinstance(error, EdgeLLMError)
    assert "ZeroDivisionError" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert outbox[-1].finish_reason == "stop"  # type: ignore[union-attr]


def test_who_waits_fails_too_where_the_device_is_lost() -> None:
    engine, failed, failed_waiting = failed_step(DeviceLost("gone"))
    assert engine.is_lost and not engine.has_work
    assert [type(error) for error in failed + failed_waiting] == [DeviceLost] * 2


class Noting(OnlyTakes):
    """Notes what it is told, and ends with the first logits."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.sequence = Sequence([1, 2, 3], 3, SamplingParams())
        self.told: list[str] = []

    def begin(self) -> None:
        self.told.append("begin")

    def take(self, rows: Rows, drafts: object = ()) -> bool:
        self.told.append("take")
        return True

    def abort(self) -> None:
        self.told.append("abort")

    def fail(self, error: Exception) -> None:
        self.told.append("fail")


def test_who_takes_logits_has_begun() -> None:
    engine = make_engine(MockModel(noise))
    consumers = [Noting("r") for _ in range(3)]
    engine.add(*consumers)
    finish(engine)
    assert [consumer.told for consumer in consumers] == [["begin", "take"]] * 3


def test_logits_that_are_no_numbers_fail_one_answer() -> None:
    def logits(tokens: list[int], num_prompt_tokens: int) -> Any:
        row = says("fine")(tokens, num_prompt_tokens)
        return row * np.float32(np.nan) if tokens[0] == ord("!") else row

    engine = make_engine(MockModel(logits))
    (bad, failed), (good, outbox) = generation(b"!"), generation(b"?")
    engine.add(bad)
    engine.add(good)
    finish(engine)
    assert isinstance(failed[0], EdgeLLMError) and "logit" in str(failed[0])
    assert outbox[-1].finish_reason == "stop"  # type: ignore[union-attr]


def test_a_listener_that_is_gone_ends_its_answer() -> None:
    def gone(event: TokenEvent | Exception) -> None:
        raise RuntimeError("the event loop is closed")

    engine = make_engine(MockModel(says("x" * 50)))
    engine.add(generation(emit=gone)[0])
    engine.step()
    assert not engine.has_work
    assert engine.stats().tokens_generated == 1
    engine.check_integrity()


@settings(max_examples=40, deadline=None)
@given(
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 70)),
            st.tuples(st.just("add"), st.integers(1, 20)),
            st.tuples(st.just("abort"), st.integers(0, 9)),
            st.tuples(st.just("break"), st.just(0)),
            st.tuples(st.just("step"), st.integers(1, 4)),
        ),
        max_size=30,
    ),
    guesses=st.integers(0, 3),
)
def test_every_request_gets_exactly_one_end(actions: list[tuple[str, int]], guesses: int) -> None:
    """And a text that nothing around it changes: all of it, or where it was cut its beginning."""
    model = MockModel(noise)
    engine = speculating(model, Scripted(lambda tokens: [1] * guesses), num_blocks=16)
    made: list[tuple[Generation, Outbox]] = []
    for action, number in actions:
        if action == "add":
            params = SamplingParams(seed=1, max_tokens=3 * number % 25)
            request_id, prompt = str(len(made) % 10), bytes([number]) * number
            answers = [generation(prompt, params, i, request_id) for i in range(1 + number % 3)]
            for answer, _ in answers:
                answer.sequence.is_background = number % 4 == 0
            made += answers
            engine.add(*(answer for answer, _ in answers))
        elif action == "abort":
            engine.abort(str(number))
        elif engine.has_work:
            model.error = OSError("broken") if action == "break" else None
            for _ in range(number or 1):
                if engine.has_work:
                    engine.step()
            model.error = None
        engine.check_integrity()
    finish(engine)
    for answer, outbox in made:
        ends = [e for e in outbox if isinstance(e, Exception) or e.finish_reason]
        assert len(ends) == 1 and ends[0] is outbox[-1]
        sequence = answer.sequence
        prompt = bytes(sequence.token_ids[: sequence.num_prompt_tokens])
        alone, _ = generation(prompt, sequence.params, sequence.sample_index)
        quiet = make_engine(MockModel(noise))
        quiet.add(alone)
        finish(quiet)
        whole = alone.sequence.token_ids[len(prompt) :]
        told = [t for e in outbox if isinstance(e, TokenEvent) for t in e.token_ids]
        is_whole = isinstance(ends[0], TokenEvent) and ends[0].finish_reason != "abort"
        assert told == (whole if is_whole else whole[: len(told)])


def test_an_empty_prompt_is_a_request_error() -> None:
    engine = make_engine(MockModel(says("x")))
    consumer, failed = generation(b"")
    engine.add(consumer)
    assert isinstance(failed[0], RequestError)
    assert not engine.has_work
