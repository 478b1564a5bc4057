"""How much prefill a step takes follows from what steps cost."""

import pytest
from hypothesis import given, strategies as st

from edgellm.step_cost import StepCost

SECONDS = st.floats(1e-6, 10.0)


def run(
    cost: StepCost, decode: float, per_token: float, per_chunk: float = 0.0, steps: int = 400
) -> list[tuple[int, float]]:
    """Prompt tokens and seconds of each step beside a decode, on a machine with these costs."""
    cost.observe(1, 0, decode)
    taken = []
    for _ in range(steps):
        tokens = cost.prefill_tokens(1)
        seconds = decode + (per_chunk + tokens * per_token if tokens else 0.0)
        cost.observe(1, tokens, seconds)
        taken.append((tokens, seconds))
    return taken


@pytest.mark.parametrize(
    ("decode", "per_token", "per_chunk"),
    [
        (0.01, 0.001, 0.0),
        (0.02, 0.0001, 0.0),
        (0.1, 0.003, 0.0),
        (0.003, 0.0005, 0.010),  # a small model, deep in a long prompt: mostly reading the cache
        (0.003, 0.0005, 0.040),
    ],
)
def test_prefill_less_than_doubles_the_time_of_decoding(
    decode: float, per_token: float, per_chunk: float
) -> None:
    taken = run(StepCost(), decode, per_token, per_chunk)[20:]  # the first ones measure
    mean = sum(seconds for _, seconds in taken) / len(taken)
    assert min(1.6 * decode, 0.14) < mean <= 1.9 * decode
    assert max(seconds for _, seconds in taken) < 0.25
    assert all(tokens >= 16 for tokens, _ in taken if tokens)


def test_prefill_beside_slow_decodes_never_waits_long() -> None:
    for decode, per_token in ((0.140, 0.02), (0.5, 0.1), (3.0, 1.0)):
        taken = run(StepCost(), decode, per_token)
        assert all(tokens >= 1 for tokens, _ in taken[20:])


def test_a_debt_is_bounded() -> None:
    cost = StepCost()
    run(cost, 0.01, 0.001)
    cost.observe(1, 16, 100.0)  # the machine slept
    waited = [tokens for tokens, _ in run(cost, 0.01, 0.001, steps=40)]
    assert any(waited)


def test_without_decodes_a_step_is_large() -> None:
    cost = StepCost()
    assert cost.prefill_tokens(0) == 128
    cost.observe(0, 128, 0.128)
    assert cost.prefill_tokens(0) == 500
    for _ in range(9):
        cost.observe(0, 128, 12.8)  # a slow machine: a step that uses it badly would be no faster
    assert cost.prefill_tokens(0) == 128


def test_short_prompts_do_not_make_long_ones_slow() -> None:
    cost = StepCost()
    for _ in range(9):
        cost.observe(0, 2, 0.1)
    assert cost.prefill_tokens(0) == 128


def test_an_interrupted_step_does_not_count() -> None:
    cost = StepCost()
    for seconds in (0.01, 0.01, 2.0):
        cost.observe(1, 0, seconds)
    for seconds in (0.02, 0.02, 3.0):
        cost.observe(1, 10, seconds)
    for _ in range(40):  # pay the debt, and save as much as one may
        cost.observe(1, 0, 0.01)
    assert cost.prefill_tokens(1) in (139, 140)


def test_the_nearest_number_of_rows_stands_for_others() -> None:
    cost = StepCost()
    cost.observe(1, 0, 0.100)
    cost.observe(8, 0, 0.145)
    cost.observe(1, 10, 0.110)
    assert cost.prefill_tokens(1) in (49, 50)
    assert cost.prefill_tokens(7) in (4, 5)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 600), SECONDS), max_size=20),
    st.integers(1, 9),
    st.floats(1e-3, 10.0),
)
def test_prefill_waits_for_a_bounded_time(
    steps: list[tuple[int, int, float]], rows: int, decode: float
) -> None:
    cost = StepCost()
    for decodes, tokens, seconds in steps:
        if decodes or tokens:
            cost.observe(decodes, tokens, seconds)
        assert cost.prefill_tokens(0) >= 1
    for _ in range(9):
        cost.observe(rows, 0, decode)
    waited = 0.0
    while not cost.prefill_tokens(rows):
        cost.observe(rows, 0, decode)
        waited += decode
    assert waited <= 2 * 0.15 / 0.8 + decode
