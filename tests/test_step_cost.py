"""How much prefill a step takes follows from what steps cost."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.step_cost import StepCost, Work

SECONDS = st.floats(1e-6, 10.0)


@dataclass
class Machine:
    """What steps take, in seconds: a decode, a prompt token, a token before each of those, a chunk
    whatever its size, what a chunk leaves to the next decodes, half of it to each, and what else
    comes in between."""

    decode: float
    per_token: float
    per_key: float = 0.0
    per_chunk: float = 0.0
    wake: float = 0.0
    other: Callable[[], float] = lambda: 0.0
    _cold: float = 0.0

    def seconds(self, work: Work) -> float:
        seconds = self.decode * bool(work.decode_rows) + self._cold / 2
        self._cold /= 2
        if work.prefill_tokens:
            per_token = self.per_token + self.per_key * (work.depth + work.prefill_tokens / 2)
            seconds += self.per_chunk + work.prefill_tokens * per_token
            self._cold = self.wake
        return seconds + self.other()


def read(cost: StepCost, machine: Machine, steps: int = 60) -> None:
    """One answer alone, after its prompt."""
    for work in (Work(0, 200), *(Work(1) for _ in range(steps))):
        cost.observe(work, machine.seconds(work))


def paste(
    cost: StepCost, machine: Machine, tokens: int, depth: int = 0, most: int = 20_000
) -> list[tuple[int, float]]:
    """Prompt tokens and seconds of each step while a prompt is computed beside a decode."""
    taken: list[tuple[int, float]] = []
    while tokens and len(taken) < most:
        count = min(tokens, cost.prefill_tokens(1, tokens, depth))
        work = Work(1, count, depth)
        seconds = machine.seconds(work)
        cost.observe(work, seconds)
        taken.append((count, seconds))
        tokens, depth = tokens - count, depth + count
    assert not tokens, f"{tokens} tokens are left after {most} steps"
    return taken


def mean(taken: list[tuple[int, float]]) -> float:
    return sum(seconds for _, seconds in taken) / len(taken)


SMALL = Machine(0.0035, 0.0005, per_key=0.0000006, per_chunk=0.008, wake=0.010)


@pytest.mark.parametrize(
    "machine",
    [
        SMALL,
        Machine(0.0035, 0.0005, per_key=0.0000006, per_chunk=0.020, wake=0.040),
        Machine(0.01, 0.001),
        Machine(0.02, 0.0001),
        Machine(0.02, 0.004, per_key=0.000001, per_chunk=0.02, wake=0.01),
        Machine(0.1, 0.003),
    ],
)
def test_a_paste_less_than_doubles_the_time_of_an_answer(machine: Machine) -> None:
    cost = StepCost()
    read(cost, machine)
    taken = paste(cost, machine, 4000)
    assert mean(taken) <= 1.95 * machine.decode
    assert max(seconds for _, seconds in taken) < 0.25
    # nearly all that is allowed is used: else the paster waits in vain
    assert len(taken) < 50 or mean(taken) >= 1.6 * machine.decode


def test_chunks_are_as_long_as_a_step_may_be() -> None:
    """Each costs something by itself."""
    cost = StepCost()
    read(cost, SMALL)
    chunks = [(tokens, seconds) for tokens, seconds in paste(cost, SMALL, 4000) if tokens]
    assert all(0.1 < seconds < 0.2 for _, seconds in chunks[1:-1])


def test_the_first_chunk_far_inside_a_long_prompt_is_not_too_long() -> None:
    """A second turn: most of its prompt is in the cache, and nothing so deep was measured."""
    cost = StepCost()
    read(cost, SMALL)
    taken = paste(cost, SMALL, 500, depth=7000)
    assert max(seconds for _, seconds in taken) < 0.25


def test_a_short_prompt_waits_for_no_more_than_its_own_time() -> None:
    cost = StepCost()
    read(cost, SMALL)
    paste(cost, SMALL, 2000)
    assert cost.prefill_tokens(1, 2000, 2000) == 0
    waited = [tokens for tokens, _ in paste(cost, SMALL, 20)]
    assert waited[-1] == 20 and len(waited) < 12  # 2000 tokens would wait for some 40 steps


def test_prefill_beside_slow_decodes_takes_nearly_as_long_as_they_do() -> None:
    for decode, per_token in ((0.140, 0.02), (0.5, 0.1), (3.0, 1.0)):
        machine, cost = Machine(decode, per_token), StepCost()
        read(cost, machine)
        taken = paste(cost, machine, 200)[1:]
        assert max(seconds for _, seconds in taken) <= 1.85 * decode + per_token
        assert mean(taken) >= 1.3 * decode


def test_a_machine_that_others_use_too_starves_nobody() -> None:
    """One step in ten is interrupted for long: that slows the answer down in any case."""
    for seed in range(5):
        draw = random.Random(seed)
        machine = Machine(0.0035, 0.0005, other=lambda: 0.07 * (draw.random() < 0.1))  # noqa: B023
        cost = StepCost()
        read(cost, machine)
        quiet = sum(machine.seconds(Work(1)) for _ in range(2000)) / 2000
        assert mean(paste(cost, machine, 4000, most=3000)) <= 2 * quiet


def test_the_time_of_decodes_is_not_learnt_where_prefill_slows_them() -> None:
    """Or they would earn by being slow."""
    cost = StepCost()
    machine = Machine(0.010, 0.001, wake=0.060)
    read(cost, machine)
    for _ in range(20):
        for work in (Work(1, 100), Work(1), Work(1)):
            cost.observe(work, machine.seconds(work))
    waited = 0
    while not cost.prefill_tokens(1, 500, 0):
        cost.observe(Work(1), 0.010)
        waited += 1
    assert waited == pytest.approx(2 * 0.14 / 0.007, abs=2)  # from the deepest debt to all


def test_a_debt_is_bounded() -> None:
    cost = StepCost()
    machine = Machine(0.01, 0.001)
    read(cost, machine)
    cost.observe(Work(1, 16), 100.0)  # the machine slept
    assert len(paste(cost, machine, 16)) < 60


def test_without_decodes_a_step_is_large() -> None:
    cost = StepCost()
    assert cost.prefill_tokens(0, 9999, 0) == 128
    cost.observe(Work(0, 128), 0.128)
    assert cost.prefill_tokens(0, 9999, 0) == 500
    for _ in range(9):
        cost.observe(Work(0, 128), 12.8)  # a step that uses a slow machine badly is no faster
    assert cost.prefill_tokens(0, 9999, 0) == 128


def test_short_prompts_do_not_make_long_ones_slow() -> None:
    cost = StepCost()
    cost.observe(Work(0, 128), 0.128)
    for _ in range(9):
        cost.observe(Work(0, 2), 0.1)
    assert cost.prefill_tokens(0, 9999, 0) == 500


def test_an_interrupted_step_does_not_count() -> None:
    cost = StepCost()
    for seconds in (0.01, 0.01, 2.0):
        cost.observe(Work(1), seconds)
    for seconds in (0.03, 0.03, 3.0):
        cost.observe(Work(1, 20), seconds)
    for _ in range(40):  # pay the debt, and save as much as one may
        cost.observe(Work(1), 0.01)
    assert cost.prefill_tokens(1, 9999, 0) in (139, 140)


def test_the_nearest_number_of_rows_stands_for_others() -> None:
    cost = StepCost()
    for _ in range(9):
        cost.observe(Work(8), 0.080)
        cost.observe(Work(1), 0.050)
    cost.observe(Work(0, 100), 0.150)
    assert cost.prefill_tokens(1, 9999, 0) in (99, 100)
    assert cost.prefill_tokens(7, 9999, 0) in (69, 70)


WORKS = st.builds(Work, st.integers(0, 9), st.integers(0, 600), st.floats(0, 9000))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(WORKS, SECONDS), max_size=20),
    st.integers(1, 9),
    st.floats(1e-3, 10.0),
    st.integers(1, 9000),
    st.integers(0, 9000),
)
def test_prefill_waits_for_a_bounded_time(
    steps: list[tuple[Work, float]], rows: int, decode: float, wanted: int, depth: int
) -> None:
    cost = StepCost()
    for work, seconds in steps:
        if work.decode_rows or work.prefill_tokens:
            cost.observe(work, seconds)
        assert cost.prefill_tokens(0, wanted, depth) >= 1
    for _ in range(20):
        cost.observe(Work(rows), decode)
    waited = 0.0
    while not (tokens := cost.prefill_tokens(rows, wanted, depth)):
        cost.observe(Work(rows), decode)
        waited += decode
    assert waited <= max(2 * 0.15 / 0.7, 2 * decode) + decode
    assert tokens <= max(wanted, 32)
