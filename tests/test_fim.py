"""The prompt around a hole: its layout, and what is cut when it does not fit."""

from hypothesis import given, strategies as st

from edgellm.fim import fill
from edgellm.holes import FimPrompt, Hole, SourceFile
from tests.mock_model import BOS, ByteTokenizer

PRE, SUF, MID, REPO, SEP = 1, 2, 3, 4, 5


def filled(hole: Hole, context: int = 512, suffix_limit: int | None = None) -> FimPrompt:
    return fill(ByteTokenizer(), context, hole, 16, suffix_limit)


def test_the_layout() -> None:
    hole = Hole("ab", "yz", "m")
    assert filled(hole).token_ids == (BOS, PRE, *b"ab", SUF, *b"yz", MID, *b"m")
    files = (SourceFile("a.py", "one"), SourceFile("b.py", "two"))
    assert filled(Hole("ab", "yz", files=files)).token_ids == (
        *(BOS, REPO, *b"myproject\n", SEP, *b"a.py\none", SEP, *b"b.py\ntwo"),
        *(SEP, *b"filename\n", PRE, *b"ab", SUF, *b"yz", MID),
    )


def test_what_is_far_from_the_hole_goes_first() -> None:
    files = (SourceFile("a", "x" * 600), SourceFile("b", "near"))
    found = filled(Hole("ab", "yz", files=files))
    assert bytes(i for i in found.token_ids if i > 5 and i < 256).count(b"x") == 0
    assert found.files_cut == 603 and b"near" in bytes(i for i in found.token_ids if i < 256)
    found = filled(Hole("p" * 1000, "s" * 1000))
    assert found.prefix_cut % 256 == 0 and found.suffix_cut > 0
    assert len(found.token_ids) + 16 < 512
    assert filled(Hole("ab", "s" * 99), suffix_limit=9).suffix_cut == 90


def test_one_more_keystroke_leaves_the_cut_where_it_was() -> None:
    before = filled(Hole("p" * 700, "s")).token_ids
    after = filled(Hole("p" * 700 + "q", "s")).token_ids
    start = before.index(SUF)
    assert after[:start] == before[:start]


@given(st.integers(0, 700), st.integers(0, 700), st.integers(0, 300), st.integers(40, 512))
def test_it_always_fits(prefix: int, suffix: int, file: int, context: int) -> None:
    hole = Hole("p" * prefix, "s" * suffix, files=(SourceFile("f", "x" * file),))
    found = filled(hole, context)
    assert len(found.token_ids) + 16 < context
    text = [i for i in found.token_ids if i in (ord("p"), ord("s"))]
    assert text == sorted(text)
    assert found.token_ids.count(ord("s")) == suffix - found.suffix_cut
