"""The automaton against a search through the whole text."""

import time

from hypothesis import given, strategies as st

from edgellm.drafters.suffix_automaton import SuffixAutomaton
from tests.waiting import PATIENCE


def longest(tokens: list[int]) -> int:
    """Length of the longest end that also ends earlier."""
    for length in range(len(tokens) - 1, 0, -1):
        ending = tokens[-length:]
        if any(tokens[end - length : end] == ending for end in range(length, len(tokens))):
            return length
    return 0


@given(st.lists(st.integers(0, 2), max_size=40))
def test_the_match_is_the_longest_there_is(tokens: list[int]) -> None:
    automaton = SuffixAutomaton()
    for count, token in enumerate(tokens, 1):
        automaton.push(token)
        length, end = automaton.match_length, automaton.match_end
        assert length == longest(tokens[:count])
        if length:
            assert end < count
            assert tokens[end - length : end] == tokens[count - length : count]
            assert automaton.continuation(1) == [tokens[end]]


def test_a_text_that_goes_round_is_continued_round_and_round() -> None:
    automaton = SuffixAutomaton()
    for token in [1, 2, 3, 1, 2]:
        automaton.push(token)
    assert automaton.continuation(7) == [3, 1, 2, 3, 1, 2, 3]


def test_nothing_repeated_has_no_continuation() -> None:
    automaton = SuffixAutomaton()
    assert automaton.continuation(3) == []
    for token in range(5):
        automaton.push(token)
    assert automaton.continuation(3) == []


def test_the_latest_place_that_matched_is_continued() -> None:
    automaton = SuffixAutomaton()
    for token in [1, 2, 7, 1, 2, 8, 1, 2]:
        automaton.push(token)
    assert automaton.continuation(1) == [8]


def test_time_is_linear_even_for_the_worst_texts() -> None:
    for text in ([0] * 60_000, [0, 1] * 30_000, list(range(60_000))):
        automaton = SuffixAutomaton()
        begun = time.perf_counter()
        for token in text:
            automaton.push(token)
        assert time.perf_counter() - begun < PATIENCE  # a quadratic one takes minutes
        assert len(automaton._length) <= 2 * len(text) + 1
