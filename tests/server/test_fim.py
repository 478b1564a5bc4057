"""The prompt around a hole: its layout, and what is cut when it does not fit."""

import asyncio

from hypothesis import given, strategies as st

from edgellm.client import LocalClient
from edgellm.server.fim import File, Filled, Hole, fill
from edgellm.server.indent import IndentWatch
from edgellm.types import ModelInfo
from tests.mock_model import BOS, MockModel, make_manager, says

PRE, SUF, MID, REPO, SEP = 1, 2, 3, 4, 5


def filled(hole: Hole, context: int = 512, suffix_limit: int | None = None) -> Filled:
    async def main() -> Filled:
        async with LocalClient(make_manager(MockModel(says("")))) as client:
            info = ModelInfo("mock", "", "mock", "mock", context, 258, 0)
            return await fill(client, info, hole, 16, suffix_limit)

    return asyncio.run(main())


def test_the_layout() -> None:
    hole = Hole("ab", "yz", "m")
    assert filled(hole).token_ids == (BOS, PRE, *b"ab", SUF, *b"yz", MID, *b"m")
    files = (File("a.py", "one"), File("b.py", "two"))
    assert filled(Hole("ab", "yz", files=files)).token_ids == (
        *(BOS, REPO, *b"myproject\n", SEP, *b"a.py\none", SEP, *b"b.py\ntwo"),
        *(SEP, *b"filename\n", PRE, *b"ab", SUF, *b"yz", MID),
    )


def test_what_is_far_from_the_hole_goes_first() -> None:
    files = (File("a", "x" * 600), File("b", "near"))
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
    hole = Hole("p" * prefix, "s" * suffix, files=(File("f", "x" * file),))
    found = filled(hole, context)
    assert len(found.token_ids) + 16 < context
    text = [i for i in found.token_ids if i in (ord("p"), ord("s"))]
    assert text == sorted(text)
    assert found.token_ids.count(ord("s")) == suffix - found.suffix_cut


def watched(indent: int, text: str, cuts: list[int]) -> str:
    watch, out, last = IndentWatch(indent), "", 0
    for cut in [*sorted(c % (len(text) + 1) for c in cuts), len(text)]:
        out += watch.push(text[last:cut])
        last = cut
    return out + watch.finish()


def test_a_line_that_is_indented_less_ends_the_text() -> None:
    assert watched(4, "a\n    b\n\n    c\n  d\n    e", []) == "a\n    b\n\n    c"
    assert watched(0, "a\nb", []) == "a\nb"
    assert watched(4, "a\n    b\n  ", []) == "a\n    b\n  "


@given(st.integers(0, 3), st.text("a \n", max_size=20), st.lists(st.integers(0, 20)))
def test_the_pieces_do_not_matter(indent: int, text: str, cuts: list[int]) -> None:
    whole = watched(indent, text, [])
    assert watched(indent, text, cuts) == whole and text.startswith(whole)
