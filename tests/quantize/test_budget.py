"""Spending bytes: never too many, near the best there is, always alike."""

from itertools import product

import pytest
from hypothesis import given, strategies as st

from edgellm.errors import RequestError
from edgellm.quantize.budget import spend
from edgellm.quantize.sensitivity import Choice

sizes = st.integers(1, 50)
errors = st.floats(0, 1, allow_nan=False, width=16)
tensor = st.lists(st.builds(Choice, st.just("T"), sizes, errors), min_size=1, max_size=5)
tables = st.lists(tensor, min_size=1, max_size=4).map(
    lambda lists: {f"t{i}": tuple(choices) for i, choices in enumerate(lists)}
)


def total(chosen: dict[str, Choice]) -> float:
    return sum(choice.error for choice in chosen.values())


@given(tables, st.integers(0, 200))
def test_within_the_budget_and_near_the_best_there_is(
    table: dict[str, tuple[Choice, ...]], budget: int
) -> None:
    least = sum(min(choice.nbytes for choice in choices) for choices in table.values())
    if least > budget:
        with pytest.raises(RequestError, match=f"smallest .* is {least:,} bytes"):
            spend(table, budget, {})
        return
    chosen = spend(table, budget, {})
    assert chosen.keys() == table.keys() and chosen == spend(table, budget, {})
    assert all(chosen[name] in choices for name, choices in table.items())
    assert sum(choice.nbytes for choice in chosen.values()) <= budget
    combinations = (dict(zip(table, row, strict=True)) for row in product(*table.values()))
    able = [c for c in combinations if sum(choice.nbytes for choice in c.values()) <= budget]
    # The relaxed problem is off by at most one step of one tensor.
    step = max(max(c.error for c in cs) - min(c.error for c in cs) for cs in table.values())
    assert total(chosen) <= min(map(total, able)) + step + 1e-9


@given(tables)
def test_with_bytes_enough_nothing_is_lost(table: dict[str, tuple[Choice, ...]]) -> None:
    chosen = spend(table, 10_000, {})
    for name, choices in table.items():
        assert chosen[name].error == min(choice.error for choice in choices)


def test_what_counts_more_gets_more() -> None:
    choices = (Choice("small", 1, 0.5), Choice("large", 2, 0.0))
    table = {"a": choices, "b": choices}
    assert [c.type for c in spend(table, 3, {}).values()] == ["large", "small"]
    assert [c.type for c in spend(table, 3, {"b": 2.0}).values()] == ["small", "large"]


def test_a_choice_that_lies_above_the_others_is_never_taken() -> None:
    table = {"a": (Choice("s", 1, 1.0), Choice("m", 2, 0.9), Choice("l", 3, 0.0))}
    assert spend(table, 2, {})["a"].type == "s" and spend(table, 3, {})["a"].type == "l"
