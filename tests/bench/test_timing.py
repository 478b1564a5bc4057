"""Which steps a test runs, which of them count, and what takes turns with them."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from edgellm.bench import timing
from edgellm.bench.timing import Workload, measure
from edgellm.engine import Engine
from edgellm.errors import BackendError, EdgeLLMError
from edgellm.kernels.draw import Draws
from edgellm.sequence import Chunk
from tests.mock_model import VOCAB_SIZE, MockModel, make_engine, noise

DECODE_NS, PREFILL_NS, READ_NS = 7, 1000, 5


class TimedModel(MockModel):
    """Each step moves the clock on by so much per row, more for rows of a chunk."""

    now = 0

    def run(self, batch: list[Chunk]) -> npt.NDArray[np.float32]:
        for chunk in batch:
            self.now += DECODE_NS if chunk.count == 1 else PREFILL_NS * chunk.count
        return super().run(batch)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[TimedModel]:
    timed = TimedModel(noise)
    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: timed.now)
    yield timed


def engine_for(model: MockModel) -> Engine:
    return make_engine(
        model, context_length=1300, num_blocks=1000, max_num_seqs=4, token_budget=516
    )


def counts(model: MockModel) -> list[list[int]]:
    """Rows of each sequence in each step."""
    return [[count for _, count in batch] for batch in model.batches]


def test_a_prompt_is_computed_in_chunks(model: TimedModel) -> None:
    engine = engine_for(model)
    found = measure(engine, VOCAB_SIZE, Workload(1100, 0), 2)
    assert counts(model) == 3 * [[512], [512], [76]]  # a warm-up and two repetitions
    assert found.steps_ns == (1100 * PREFILL_NS,) * 2
    assert found.read_ns == ()
    assert not engine.has_work
    engine.check_integrity()


def test_sequences_write_side_by_side_behind_what_is_not_timed(model: TimedModel) -> None:
    engine = engine_for(model)
    found = measure(engine, VOCAB_SIZE, Workload(0, 3, n_depth=600, n_seqs=2), 2)
    warm_up, *rest = counts(model)
    assert warm_up == [1, 1]
    half = len(rest) // 2
    for repetition in (rest[:half], rest[half:]):
        assert repetition[-3:] == [[1, 1]] * 3
        assert sum(sum(step) for step in repetition[:-3]) == 2 * 600
    assert found.steps_ns == (3 * 2 * DECODE_NS,) * 2
    assert not engine.has_work
    engine.check_integrity()


def test_tokens_that_the_backend_draws_are_as_many_and_differ(
    model: TimedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.can_draw = True
    asked: list[Draws] = []
    plain = model.draw

    def draw(batch: list[Chunk], draws: Draws) -> list[list[int]]:
        asked.append(draws)
        return plain(batch, draws)

    monkeypatch.setattr(model, "draw", draw)
    engine = engine_for(model)
    measure(engine, VOCAB_SIZE, Workload(0, 9, n_seqs=2), 1)
    warm_up, *rest = counts(model)
    # The last token that is asked for is computed, and none behind it.
    assert warm_up == [1, 1] and rest == [[1, 1]] * 9
    assert len(asked) == 8
    assert {draw.kept for draws in asked for draw in draws.each} == {64}
    assert {tuple(draw.seed for draw in draws.each) for draws in asked} == {(0, 1)}


def test_tokens_are_random_and_of_the_vocabulary(model: TimedModel) -> None:
    seen: list[list[int]] = []

    def watch(tokens: list[int], num_prompt_tokens: int) -> npt.NDArray[np.float32]:
        seen.append(tokens)
        return noise(tokens, num_prompt_tokens)

    model.logits = watch
    measure(engine_for(model), VOCAB_SIZE, Workload(300, 0), 2)
    warm_up, first, second = seen
    assert warm_up != first != second
    assert {len(tokens) for tokens in seen} == {300}
    assert min(map(min, seen)) >= 0 and max(map(max, seen)) < VOCAB_SIZE
    assert len(set(first)) > 100


def test_a_plain_read_takes_turns(model: TimedModel) -> None:
    class Read:
        steps_before: list[int] = []

        def run(self) -> int:
            self.steps_before.append(len(model.batches))
            model.now += READ_NS
            return 0

    found = measure(engine_for(model), VOCAB_SIZE, Workload(0, 4), 2, Read())
    assert found.steps_ns == (4 * DECODE_NS,) * 2
    assert found.read_ns == (READ_NS,) * 2
    assert Read.steps_before == [1, *[5] * 4, *[9] * 4]


def test_a_failing_step_ends_it(model: TimedModel) -> None:
    engine = engine_for(model)
    model.error = BackendError("out of order")
    with pytest.raises(EdgeLLMError, match="out of order"):
        measure(engine, VOCAB_SIZE, Workload(8, 0), 1)
    assert not engine.has_work
    engine.check_integrity()


def test_what_a_workload_needs() -> None:
    assert Workload(1024, 0).num_steps == 2
    assert Workload(0, 64, n_depth=4096, n_seqs=8).num_tokens == 512
    assert Workload(0, 64, n_depth=4096, n_seqs=8).length == 4160
