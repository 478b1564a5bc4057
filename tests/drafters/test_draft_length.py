"""How many tokens are guessed: what pays by the costs and chances that a test makes up."""

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from edgellm.drafters import PromptLookup, Speculation
from edgellm.drafters.row_cost import RowCost
from edgellm.limits import Limits
from edgellm.sequence import Sequence
from edgellm.types import SamplingParams
from tests.drafters.scripted import Scripted

LIMITS = Limits(1000, 8, 32, 64, 100, (None,))


def sequence(length: int = 10, params: SamplingParams | None = None) -> Sequence:
    return Sequence(list(range(length)), length, params or SamplingParams())


def measured(
    chance: float,
    seconds: Callable[[int], float],
    replays: bool = False,
    limits: Limits = LIMITS,
) -> Speculation:
    """Speculation that knows what a step of 1 to 40 rows takes, with guesses of one chance."""
    drafter = Scripted(lambda tokens: list(range(100)), chance)
    speculation = Speculation((drafter,), limits, replays)
    for rows in range(1, 41):
        speculation.observe(rows, seconds(rows))
    return speculation


def lengths(speculation: Speculation, *sequences: Sequence) -> list[int]:
    drafts = speculation.draft(sequences)
    return [len(drafts.get(one, [])) for one in sequences]


def test_sure_guesses_are_many_where_rows_cost_nothing() -> None:
    assert lengths(measured(1.0, lambda rows: 1.0), sequence()) == [15]


def test_none_where_every_row_costs_as_much() -> None:
    assert lengths(measured(0.9, lambda rows: float(rows)), sequence()) == [0]


def test_none_where_guesses_are_wrong() -> None:
    assert lengths(measured(0.02, lambda rows: 1.0 + 0.1 * (rows - 1)), sequence()) == [0]


def test_no_further_than_the_step_that_pays_best() -> None:
    """Four rows are as cheap as one here, five are not."""
    speculation = measured(0.95, lambda rows: 1.0 if rows <= 4 else 5.0)
    assert lengths(speculation, sequence()) == [3]


@given(st.floats(0.05, 0.95), st.floats(0.01, 1.0))
def test_the_length_promises_most(chance: float, slope: float) -> None:
    def rate(count: int) -> float:
        gain = sum(chance**i for i in range(1, count + 1))
        return (1.0 + gain) / (1.0 + slope * count)

    (length,) = lengths(measured(chance, lambda rows: 1.0 + slope * (rows - 1)), sequence())
    best = max(map(rate, (0, 1, 3, 7, 15)))
    assert rate(length) == pytest.approx(best) if best > 1.1 else length == 0


def test_what_must_be_computed_again_counts() -> None:
    def seconds(rows: int) -> float:
        return 1.0 + 0.45 * (rows - 1)

    assert lengths(measured(0.6, seconds), sequence()) > [0]
    assert lengths(measured(0.6, seconds, replays=True), sequence()) == [0]


def test_rows_of_all_sequences_count() -> None:
    speculation = measured(1.0, lambda rows: 1.0 if rows <= 8 else float(rows))
    assert sum(lengths(speculation, *(sequence() for _ in range(4)))) == 4


def test_neither_beyond_the_context_nor_the_answer_nor_the_logits() -> None:
    speculation = measured(1.0, lambda rows: 1.0)
    assert lengths(speculation, sequence(996)) == [3]
    assert lengths(speculation, sequence(997)) == [3]
    assert lengths(speculation, sequence(1000)) == [0]
    assert lengths(speculation, sequence(params=SamplingParams(max_tokens=6))) == [3]
    assert lengths(speculation, sequence(params=SamplingParams(max_tokens=1))) == [0]
    few = Limits(1000, 8, 32, 64, 6, (None,))
    assert sum(lengths(measured(1.0, lambda rows: 1.0, limits=few), sequence(), sequence())) == 2


def test_beams_and_requests_that_want_none_have_none() -> None:
    speculation = measured(1.0, lambda rows: 1.0)
    others = (SamplingParams(speculation="off"), SamplingParams(speculation="draft"))
    for params in (SamplingParams(beam_width=2), *others):
        assert lengths(speculation, sequence(params=params)) == [0]


def test_costs_between_measurements_lie_on_lines() -> None:
    cost = RowCost()
    assert cost.seconds(1) < cost.seconds(9)
    for rows, seconds in ((2, 1.0), (6, 2.0), (6, 30.0), (6, 2.0)):
        cost.observe(rows, seconds)
    assert cost.seconds(6) == 2.0  # one slow step is an accident
    assert cost.seconds(4) == pytest.approx(1.5)
    assert 2.0 < cost.seconds(12) < 4.0
    assert 0.5 < cost.seconds(1) < 1.0


def test_a_cost_that_is_old_is_measured_anew() -> None:
    cost = RowCost()
    cost.observe(4, 99.0)
    for _ in range(600):
        cost.observe(1, 1.0)
    assert cost.seconds(4) < 2.0


def test_lookup_learns_from_what_it_would_have_guessed() -> None:
    lookup, text = PromptLookup(), sequence()
    text.token_ids = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4]
    (first,) = lookup.chances(text, 1)
    assert lookup.draft({text: 3}) == {text: [5, 6, 7]}
    for _ in range(20):
        text.token_ids += [99 + len(text.token_ids), 1, 2, 3, 4]
        (later,) = lookup.chances(text, 1)
    assert later < first / 2
    lookup.forget(text)
    assert lookup.chances(text, 1)[0] == first
