"""Repetition without end, and what only looks like it."""

from hypothesis import given, strategies as st

from edgellm.sampling import LoopDetector


def found_after(tokens: list[int]) -> tuple[int, int] | None:
    """How many tokens were pushed when a loop was found, and the length of its phrase."""
    detector = LoopDetector()
    for count, token in enumerate(tokens, start=1):
        if (length := detector.push(token)) is not None:
            return count, length
    return None


@given(st.lists(st.integers(0, 500), unique=True, min_size=1, max_size=200))
def test_a_phrase_said_eight_times_is_a_loop(phrase: list[int]) -> None:
    before = [-2, -3, -4]
    expected = len(before) + len(phrase) + max(7 * len(phrase), 64)
    assert found_after([*before, *phrase * 70][: expected + 5]) == (expected, len(phrase))
    assert found_after([*before, *phrase * 70][: expected - 1]) is None


@given(st.lists(st.integers(0, 3), max_size=60))
def test_a_short_text_is_never_a_loop(tokens: list[int]) -> None:
    assert found_after(tokens) is None


def test_a_list_with_a_number_that_counts_is_none() -> None:
    rows = [token for row in range(100) for token in (1, 1000 + row, 2, 3)]
    assert found_after(rows) is None
