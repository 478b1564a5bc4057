"""Special tokens in a text: the longest first, and quickly however many there are."""

from time import perf_counter

from hypothesis import given, strategies as st

from edgellm.tokenizer.partition import Partition, Special
from tests.waiting import PATIENCE

special_texts = st.lists(st.text("<>ab\n", min_size=1, max_size=4), unique=True, max_size=8)


def by_the_rule(text: str, specials: list[Special]) -> list[str | int]:
    """One special after the other, longest first, splits every part that is still text."""
    parts: list[str | int] = [text] if text else []
    for special in sorted(specials, key=lambda s: (-len(s.text), s.token_id)):
        split: list[str | int] = []
        for part in parts:
            if isinstance(part, int):
                split.append(part)
                continue
            for i, piece in enumerate(part.split(special.text.decode())):
                split += [special.token_id] if i else []
                split += [piece] if piece else []
        parts = split
    return parts


@given(st.text("<>ab\né", max_size=40), special_texts)
def test_longest_first(text: str, texts: list[str]) -> None:
    specials = [Special(i, special.encode()) for i, special in enumerate(texts)]
    assert Partition(specials).split(text) == by_the_rule(text, specials)


def test_longer_wins_over_earlier() -> None:
    specials = [Special(0, b"ab"), Special(1, b"bcd")]
    assert Partition(specials).split("xabcd") == ["xa", 1]


def test_stripping() -> None:
    specials = [Special(0, b"<m>", strip_left=True), Special(1, b"<e>", strip_right=True)]
    partition = Partition(specials)
    assert partition.split("a \n<m> b") == ["a", 0, " b"]
    assert partition.split("a <e> \t\nb") == ["a ", 1, "b"]
    assert partition.split(" <m><e> ") == [0, 1]
    assert partition.split("<e> <m>") == [1, 0]
    # No-break spaces are not C's white space.
    assert partition.split("a\u00a0<m>") == ["a\u00a0", 0]


def test_nothing_to_find() -> None:
    assert Partition([]).split("") == []
    assert Partition([]).split("a") == ["a"]
    assert Partition([Special(0, b"<x>")]).split("<y>") == ["<y>"]


def test_thousands_do_not_hang() -> None:
    """Six thousand specials, all in the text, three times each."""
    specials = [Special(i, f"<unused{i}>".encode()) for i in range(6000)]
    text = "".join(special.text.decode() for special in specials) * 3
    start = perf_counter()
    assert Partition(specials).split(text) == list(range(6000)) * 3
    assert perf_counter() - start < PATIENCE
