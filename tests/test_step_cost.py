"""How much prefill a step takes follows from what steps cost."""

import pytest
from hypothesis import given, strategies as st

from edgellm.step_cost import StepCost

SECONDS = st.floats(1e-6, 10.0)


def run(cost: StepCost, decode: float, per_token: float, rows: int = 1, steps: int = 40) -> float:
    """The time of a step beside decodes after many of them, on a machine with these costs."""
    took = 0.0
    for _ in range(steps):
        cost.observe(rows, 0, decode)
        tokens = cost.prefill_tokens(rows)
        took = decode + tokens * per_token
        cost.observe(rows, tokens, took)
    return took


@pytest.mark.parametrize(("decode", "per_token"), [(0.01, 0.001), (0.02, 0.0001), (0.1, 0.003)])
def test_prefill_less_than_doubles_the_time_of_decoding(decode: float, per_token: float) -> None:
    took = run(StepCost(), decode, per_token)
    assert min(1.5 * decode, 0.14) < took <= 1.9 * decode
    assert took < 0.25


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
    assert cost.prefill_tokens(1) == 8


def test_slow_decoding_still_lets_a_token_in() -> None:
    cost = StepCost()
    cost.observe(1, 0, 3.0)
    cost.observe(1, 8, 11.0)
    assert cost.prefill_tokens(1) == 1


def test_the_nearest_number_of_rows_stands_for_others() -> None:
    cost = StepCost()
    cost.observe(1, 0, 0.010)
    cost.observe(8, 0, 0.020)
    cost.observe(1, 10, 0.020)
    assert cost.prefill_tokens(1) == 8
    assert cost.prefill_tokens(7) == 16


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 600), SECONDS), max_size=30))
def test_there_is_always_room_for_one(steps: list[tuple[int, int, float]]) -> None:
    cost = StepCost()
    for rows, tokens, seconds in steps:
        if rows or tokens:
            cost.observe(rows, tokens, seconds)
        for asked in range(9):
            assert cost.prefill_tokens(asked) >= 1
