"""JSON checked while it is written, held against the json module."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.dialects.json_scan import MAX_DEPTH, JsonScan, Malformed
from edgellm.escapes import well_formed

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def scanned(text: str, size: int) -> str | None:
    """What a value is passed on as, in pieces of this size; None when it is none."""
    scan, written = JsonScan(), ""
    try:
        for at in range(0, len(text), size):
            piece = text[at : at + size]
            taken, more = scan.push(piece)
            written += more
            if taken < len(piece):
                return None
        if not scan.is_done:
            written += scan.finish()
    except Malformed:
        return None
    return written


@settings(max_examples=60, deadline=None)
@given(VALUES, st.integers(1, 9), st.booleans())
def test_values(value: object, size: int, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=size % 3 or None)
    assert scanned(text, size) == text


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from('\ud83d\ude00\ud800a"'), max_size=8), st.integers(1, 9))
def test_halves_of_surrogate_pairs_are_no_text(value: str, size: int) -> None:
    written = scanned(json.dumps(value), size)
    assert written is not None and json.loads(written) == well_formed(value)


@settings(max_examples=100, deadline=None)
@given(st.text('{}[]":,\\ntrue0-1.e u', max_size=12), st.integers(1, 4))
def test_the_same_is_refused(text: str, size: int) -> None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(text, parse_constant=refuse)
        is_json = True
    except ValueError:
        is_json = False
    stripped = text.rstrip()
    assert (scanned(stripped, size) is not None) == is_json


def test_line_ends_in_strings_are_escaped() -> None:
    assert json.loads(scanned('{"a\tb": "1\n2\x00"}', 3) or "") == {"a\tb": "1\n2\x00"}


@pytest.mark.parametrize("text", ["", "[" * (MAX_DEPTH + 1), "1" * 500, '"\\x"', '"\\u12g4"'])
def test_limits(text: str) -> None:
    assert scanned(text, 7) is None
