"""Merging: both ways of doing it give what the rule says, and long texts take no longer."""

import random
from collections.abc import Callable
from time import perf_counter

import pytest
from hypothesis import given, strategies as st

from edgellm.tokenizer import merge as merging
from edgellm.tokenizer.cut import Cutter
from edgellm.tokenizer.merge import NEVER, merge
from tests.waiting import PATIENCE

LETTERS = "abc"

words = st.text(LETTERS, max_size=90)
pair_ranks = st.dictionaries(
    st.tuples(st.text(LETTERS, min_size=1, max_size=4), st.text(LETTERS, min_size=1, max_size=4)),
    st.integers(0, 5),
    max_size=30,
)
token_ranks = st.dictionaries(
    st.text(LETTERS, min_size=2, max_size=6), st.integers(0, 3), max_size=30
)


def by(ranks: dict[str, int]) -> Callable[[str], int]:
    return lambda key: ranks.get(key, NEVER)


def by_the_rule(symbols: list[str], ranks: dict[str, int], joint: str) -> list[str]:
    """The rule word by word: look at all pairs, join the best, look again."""
    while True:
        best: tuple[int, int] | None = None
        for i in range(len(symbols) - 1):
            rank = ranks.get(symbols[i] + joint + symbols[i + 1])
            if rank is not None and (best is None or rank < best[0]):
                best = rank, i
        if best is None:
            return symbols
        i = best[1]
        symbols = [*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :]]


@given(words, pair_ranks)
def test_pairs(word: str, pairs: dict[tuple[str, str], int]) -> None:
    ranks = {f"{left} {right}": rank for (left, right), rank in pairs.items()}
    expected = by_the_rule(list(word), ranks, " ")
    assert merging._merge_short(list(word), by(ranks), " ") == expected
    assert merging._merge_long(list(word), by(ranks), " ") == expected
    assert merge(list(word), by(ranks), " ") == expected


@given(words, token_ranks)
def test_tokens(word: str, ranks: dict[str, int]) -> None:
    expected = by_the_rule(list(word), ranks, "")
    assert merging._merge_short(list(word), by(ranks), "") == expected
    assert merging._merge_long(list(word), by(ranks), "") == expected


@given(st.text("abcd", max_size=90), token_ranks)
def test_cutting_changes_nothing(word: str, ranks: dict[str, int]) -> None:
    """Where no token holds two neighbours, their sides merge apart with the same result."""
    pieces = Cutter(list(ranks)).cut(word)
    assert "".join(pieces) == word
    apart = [symbol for piece in pieces for symbol in merge(list(piece), by(ranks), "")]
    assert apart == by_the_rule(list(word), ranks, "")


def test_cuts_between_strangers() -> None:
    assert Cutter(["ab", "bc"]).cut("abcab") == ["abc", "ab"]
    assert Cutter(["a", "b"]).cut("abba") == ["a", "b", "b", "a"]
    assert Cutter(["ab"]).cut("") == []
    assert Cutter(["ab"]).cut("a") == ["a"]
    assert "".join(Cutter(["ab"]).cut("a\U0010ffffb")) == "a\U0010ffffb"


@pytest.mark.parametrize(
    "word",
    ["a" * 131_072, "A" * 43_000, "".join(random.Random(1).choices("abcdefgh", k=100_000))],
    ids=["same letter", "short", "random"],
)
def test_long_words_do_not_hang(word: str) -> None:
    """A quadratic merge of these takes minutes."""
    letters = "abcdefghA"
    ranks = {f"{x} {y}": i for i, (x, y) in enumerate((x, y) for x in letters for y in letters)}
    ranks |= {f"{x * 2} {x * 2}": 100 for x in letters}
    start = perf_counter()
    assert "".join(merge(list(word), by(ranks), " ")) == word
    assert perf_counter() - start < PATIENCE
