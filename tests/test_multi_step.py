"""Several steps in one call: the same answers, and no more than was asked for."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import multi_step
from edgellm.block_pool import BlockPool
from edgellm.engine import Engine
from edgellm.errors import EdgeLLMError
from edgellm.generation import Generation
from edgellm.kernels.batch import Batch
from edgellm.kernels.draw import Draw, Draws
from edgellm.limits import Limits
from edgellm.scheduler import Scheduler
from edgellm.step_cost import StepCost
from edgellm.types import SamplingParams, TokenEvent
from tests.drafters.scripted import Scripted, speculating
from tests.engines import opened
from tests.mock_model import EOG, GREEDY, VOCAB_SIZE, MockModel, generation, noise, says
from tests.models.tiny import VOCAB, write_tiny

CONTEXT = 160
SAMPLED = {"temperature": 1.5, "top_k": 30, "top_p": 0.9}


class Fast(StepCost):
    """Takes a decode for so short that as many steps as may be are computed at once."""

    def decode_seconds(self, rows: int) -> float:
        return 1e-4


def finish(engine: Engine) -> int:
    """How many calls it took."""
    calls = 0
    while engine.has_work:
        engine.step()
        engine.check_integrity()
        calls += 1
        assert calls < 2000
    return calls


def scripted(model: MockModel, cost: StepCost | None = None, num_blocks: int = 64) -> Engine:
    limits = Limits(64, 4, 4, 8, 3, (None,))
    scheduler = Scheduler((BlockPool(num_blocks),), limits, cost=cost or Fast())
    return Engine(model, scheduler)  # type: ignore[arg-type]


def test_an_answer_takes_fewer_calls_and_is_the_same() -> None:
    text = "sky blue is the colour of the sky"
    outboxes, calls = [], []
    for can_draw in (False, True):
        engine = scripted(MockModel(says(text), can_draw=can_draw))
        consumer, outbox = generation(b"hello", GREEDY)
        engine.add(consumer)
        calls.append(finish(engine))
        outboxes.append(outbox)
    want, got = ([(e.text, e.token_ids, e.finish_reason, e.usage) for e in o] for o in outboxes)  # type: ignore[union-attr]
    assert got == want
    assert got[-1][1] == (EOG,)
    # The first token comes of the prompt.
    assert calls == [len(text) + 1, 1 + -(-len(text) // multi_step.MOST)]


@pytest.mark.parametrize("most", [1, 2, 7, 8, 9, 20])
def test_no_more_tokens_than_are_asked_for(most: int) -> None:
    model = MockModel(noise, can_draw=True)
    engine = scripted(model)
    consumer, outbox = generation(b"hello", SamplingParams(temperature=0, max_tokens=most))
    engine.add(consumer)
    finish(engine)
    assert len(outbox) == most
    assert sum(count for batch in model.batches[1:] for _, count in batch) == most - 1
    assert engine.stats().steps == most


def test_a_prompt_alone_is_computed_for_the_cache_and_no_token_drawn() -> None:
    engine = scripted(MockModel(noise, can_draw=True))
    for prompt in (b"hello", b"hello", b"h"):  # the second is in the cache but for its last token
        consumer, outbox = generation(prompt, SamplingParams(temperature=0, max_tokens=0))
        engine.add(consumer)
        finish(engine)
        [event] = outbox
        assert isinstance(event, TokenEvent)
        assert (event.token_ids, event.finish_reason) == ((), "length")
        assert consumer.sequence.token_ids == list(prompt)


def test_a_context_that_ends_between_two_steps_ends_the_answer() -> None:
    model = MockModel(noise, can_draw=True)
    engine = scripted(model)
    consumer, outbox = generation(b"h" * 50, GREEDY)
    engine.add(consumer)
    finish(engine)
    assert len(consumer.sequence.token_ids) <= 64
    last = outbox[-1]
    assert isinstance(last, TokenEvent) and last.finish_reason in ("stop", "length")


def test_what_is_behind_a_stop_string_is_not_in_the_cache() -> None:
    model = MockModel(says("one two three four five"), can_draw=True)
    engine = scripted(model)
    consumer, outbox = generation(b"hi", SamplingParams(temperature=0, stop=("two",)))
    engine.add(consumer)
    finish(engine)
    assert "".join(e.text for e in outbox if isinstance(e, TokenEvent)) == "one "
    computed = engine.stats().tokens_computed
    again, _ = generation(bytes(consumer.sequence.token_ids) + b"?", GREEDY)
    engine.add(again)
    finish(engine)
    assert again.sequence.num_cached_tokens == len(consumer.sequence.token_ids) - 1 == computed


def test_few_free_blocks_allow_one_step_at_a_time() -> None:
    model = MockModel(noise, can_draw=True)
    engine = scripted(model, num_blocks=16)
    outboxes = []
    for number in range(3):
        params = SamplingParams(temperature=0, max_tokens=12)
        consumer, outbox = generation(bytes([97 + number]) * 4, params)
        engine.add(consumer)
        outboxes.append(outbox)
    finish(engine)
    assert [len(outbox) for outbox in outboxes] == [12] * 3


@pytest.mark.parametrize(
    "change",
    [
        {"logprobs": 2},
        {"repeat_penalty": 1.3},
        {"mirostat": 2, "temperature": 1.0},
        {"regex": "[a-z]*"},
        {"temperature": 1.0, "top_k": 0},
    ],
)
def test_whoever_must_see_logits_does(change: dict[str, Any]) -> None:
    consumer, _ = generation(b"hello", SamplingParams(**{"temperature": 0, **change}))
    if "regex" in change:
        consumer.constraint = object()  # type: ignore[assignment]
    assert consumer.draw() is None


def test_one_that_must_see_logits_holds_the_others_to_a_step() -> None:
    model = MockModel(noise, can_draw=True)
    engine = scripted(model)
    for params in (GREEDY, SamplingParams(temperature=0, logprobs=1, max_tokens=6)):
        engine.add(generation(b"hello", params)[0])
    engine.step()
    engine.step()
    assert {count for batch in model.batches[1:] for _, count in batch} <= {1, 5}


def test_logits_that_are_no_numbers_end_one_answer() -> None:
    def logits(tokens: list[int], prompt: int) -> np.ndarray:
        row = np.zeros(VOCAB_SIZE, np.float32)
        row[7] = np.nan if tokens[0] == ord("b") and len(tokens) > 10 else 1.0
        return row

    engine = scripted(MockModel(logits, can_draw=True))
    outboxes = []
    for prompt in (b"bad", b"good"):
        consumer, outbox = generation(prompt, SamplingParams(temperature=0, max_tokens=20))
        engine.add(consumer)
        outboxes.append(outbox)
    finish(engine)
    bad, good = outboxes
    assert isinstance(bad[-1], EdgeLLMError) and "no numbers" in str(bad[-1])
    assert len(good) == 20


def test_a_step_that_fails_ends_its_answers_and_the_engine_lives() -> None:
    model = MockModel(says("fine"), can_draw=True)
    engine = scripted(model)
    consumer, outbox = generation(b"hello", GREEDY)
    engine.add(consumer)
    engine.step()
    model.error = RuntimeError("lost")
    engine.step()
    assert isinstance(outbox[-1], EdgeLLMError) and not engine.has_work
    model.error = None
    consumer, outbox = generation(b"hello", GREEDY)
    engine.add(consumer)
    finish(engine)
    assert isinstance(outbox[-1], TokenEvent) and outbox[-1].finish_reason == "stop"


def test_guesses_go_first() -> None:
    model = MockModel(says("guess me"), can_draw=True)
    engine = speculating(model, Scripted(lambda tokens: list(b"guess me")[len(tokens) - 5 :]))
    consumer, outbox = generation(b"hello", GREEDY)
    engine.add(consumer)
    finish(engine)
    assert "".join(e.text for e in outbox if isinstance(e, TokenEvent)) == "guess me"
    last = outbox[-1]
    assert isinstance(last, TokenEvent) and last.usage is not None
    assert last.usage.accepted_tokens == 7


def test_steps_are_as_many_as_fit_in_their_time() -> None:
    class Slow(StepCost):
        def decode_seconds(self, rows: int) -> float:
            return multi_step.LONGEST / 3.5

    model = MockModel(noise, can_draw=True)
    engine = scripted(model, Slow())
    engine.add(generation(b"hello", SamplingParams(temperature=0, max_tokens=13))[0])
    finish(engine)
    assert [count for batch in model.batches[1:] for _, count in batch] == [3, 3, 3, 3]


def ended(engine: Engine, consumer: Generation, patch: pytest.MonkeyPatch) -> None:
    """Within its second call."""
    consumer.max_tokens = 12
    patch.setattr(consumer, "draw", lambda: (Draw(), multi_step.MOST))


def gone(engine: Engine, consumer: Generation, patch: pytest.MonkeyPatch) -> None:
    emitted = count()

    def emit(event: object) -> None:
        if next(emitted) == 12:
            raise RuntimeError("the event loop is closed")

    consumer.emit = emit


def broken(engine: Engine, consumer: Generation, patch: pytest.MonkeyPatch) -> None:
    draw, calls = engine._runner.draw, count()

    def draw_and_fail(batch: Batch, draws: Draws) -> list[list[int]]:
        drawn = draw(batch, draws)
        if next(calls):
            raise OSError("lost")
        return drawn

    patch.setattr(engine._runner, "draw", draw_and_fail)


@pytest.mark.parametrize("name", ["mamba", "lfm2", "qwen35"])
@pytest.mark.parametrize("cut", [ended, gone, broken])
def test_a_recurrent_state_that_has_read_more_than_the_answer_has_is_not_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    cut: Callable[[Engine, Generation, pytest.MonkeyPatch], None],
) -> None:
    monkeypatch.setattr(StepCost, "decode_seconds", Fast.decode_seconds)

    def answer(engine: Engine, prompt: list[int], cut: Callable[..., None] | None) -> list[int]:
        consumer, _ = generation(bytes(prompt), GREEDY, context_length=CONTEXT)
        consumer.max_tokens = 40
        with monkeypatch.context() as patch:
            if cut is not None:
                cut(engine, consumer, patch)
            engine.add(consumer)
            finish(engine)
        return consumer.sequence.token_ids

    with opened(write_tiny(tmp_path, name), context_length=CONTEXT, threads=1) as engine:
        prompt = list(range(VOCAB))
        done = answer(engine, prompt, cut)
        assert len(prompt) < len(done) < len(prompt) + 14
        for known in (done, done[:-1]):  # the last token may not be computed
            warm = answer(engine, [*known, 1, 2], None)
            engine.clear_cache()
            assert warm == answer(engine, [*known, 1, 2], None)


@pytest.mark.parametrize("name", ["llama", "gemma3", "mamba", "lfm2", "qwen3moe", "deepseek2"])
@pytest.mark.parametrize("threads", [1, 2])
def test_tokens_are_those_of_single_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, threads: int
) -> None:
    rng = np.random.default_rng(1)
    prompts = [rng.integers(0, VOCAB, size).tolist() for size in (3, 30, 61)]

    def answers(engine: Engine) -> list[list[int]]:
        consumers = []
        for number, prompt in enumerate(prompts):
            params = SamplingParams(
                max_tokens=40 + 9 * number, ignore_eos=True, **(SAMPLED if number else {})
            )
            consumer, _ = generation(bytes(4), params)
            consumer.sequence.token_ids[:] = prompt
            consumer.sequence.num_prompt_tokens = len(prompt)
            consumers.append(consumer)
            engine.add(consumer)
        finish(engine)
        return [consumer.sequence.token_ids for consumer in consumers]

    sizes = {"context_length": CONTEXT, "max_num_seqs": 4, "threads": threads}
    with opened(write_tiny(tmp_path, name), **sizes) as engine:
        with monkeypatch.context() as patch:
            patch.setattr("edgellm.engine.plan_draws", lambda *args: None)
            single = answers(engine)
        monkeypatch.setattr(StepCost, "decode_seconds", Fast.decode_seconds)
        for most in (1, 2, 8):
            monkeypatch.setattr(multi_step, "MOST", most)
            engine.clear_cache()
            assert answers(engine) == single
