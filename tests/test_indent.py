"""An answer that ends where its lines are indented less."""

from hypothesis import given, strategies as st

from edgellm.indent import IndentWatch


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
