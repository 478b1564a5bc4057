"""Every dialect's calls, fed at once, letter by letter and in pieces, whole and broken."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.dialects import CallPart, TextPart, dialect_of
from tests.dialects.cases import CASES, NOTE, OSLO, PARIS, TEXT, Case
from tests.dialects.reading import calls, content, given_tools, plain, read, reasoning

each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each
def test_calls(case: Case) -> None:
    assert dialect_of(case.told_by).name == case.name
    for answer, expected in (
        (case.one, [PARIS]),
        (case.two, [PARIS, OSLO]),
        (case.note, [NOTE]),
        (case.one + "\n", [PARIS]),
    ):
        at_once = read(case.told_by, [answer], given_tools())
        assert calls(at_once) == expected
        assert content(at_once) == reasoning(at_once) == ""
        assert plain(read(case.told_by, answer, given_tools())) == plain(at_once)


@each
def test_streamed_arguments_are_the_same(case: Case) -> None:
    for answer in (case.one, case.two, case.note):
        whole = read(case.told_by, [answer], given_tools())
        assert plain(read(case.told_by, answer, given_tools(), streams=True)) == plain(whole)


@each
def test_what_has_gone_out_of_a_cut_call_stands(case: Case) -> None:
    """Its arguments end where they were; only what nothing was known of is text."""
    for end in range(1, len(case.note)):
        parts = read(case.told_by, case.note[:end], given_tools(), streams=True)
        called = [part for part in parts if isinstance(part, CallPart)]
        if not called:
            continue
        (call,) = called
        assert call.name == "note" and case.note[:end].endswith(content(parts))
        if call.is_end:
            assert json.loads(call.arguments)["text"] == TEXT


@each
def test_text_before_a_call(case: Case) -> None:
    if case.head or case.one.startswith(("{", "[g")):
        return  # such calls are all of an answer, or have heads of their own
    parts = read(case.told_by, f"I will look.\n\n{case.one}", given_tools())
    assert (content(parts), calls(parts)) == ("I will look.", [PARIS])
    after = read(case.told_by, f"{case.one}\n\nDone. ", given_tools())
    assert (calls(after), content(after)) == ([PARIS], "Done. ")


@each
def test_without_tools_all_is_text(case: Case) -> None:
    if not case.head:
        assert read(case.told_by, case.two) == [TextPart(case.two)]


@each
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_pieces_make_no_difference(case: Case, data: st.DataObject) -> None:
    """Whatever is written, whole or broken: the same parts for all ways of cutting it."""
    marks = [case.one, case.two, case.note, "<think>", "\n", "{", "[", '"', "<", "text "]
    written = "".join(data.draw(st.lists(st.sampled_from(marks), max_size=4)))
    if data.draw(st.booleans()) and written:
        at = data.draw(st.integers(0, len(written) - 1))
        length = data.draw(st.integers(0, 12))
        written = (
            written[:at]
            + data.draw(st.text('<>|{}[]":,ax \n', max_size=3))
            + written[at + length :]
        )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=8)))
    pieces = [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    at_once = plain(read(case.told_by, [written], given_tools()))
    assert plain(read(case.told_by, pieces, given_tools())) == at_once
    assert plain(read(case.told_by, written, given_tools())) == at_once


@each
def test_a_call_that_is_cut_is_text(case: Case) -> None:
    """Nothing is lost: what is no whole call is said as it was written."""
    if case.name == "harmony":
        return  # its header was read before the call broke
    whole = case.one
    for end in range(1, len(whole)):
        parts = read(case.told_by, whole[:end], given_tools())
        if calls(parts) == [PARIS]:
            continue
        is_end = whole[:end].strip() == "<|message_sep|>"  # an answer's, not a call's
        assert parts == ([] if is_end else [TextPart(whole[:end])])


@each
def test_a_broken_call_is_text(case: Case) -> None:
    if case.name == "harmony":
        return
    broken = case.note.replace("note", "no te", 1).replace("tags", '"', 1)
    parts = read(case.told_by, f"{broken} and so on", given_tools())
    assert parts == [TextPart(f"{broken} and so on")]


def test_gemma_nests_values_and_may_quote_keys() -> None:
    def called(arguments: str) -> list[Any]:
        written = arguments.replace("'", '<|"|>')
        answer = f"<|tool_call>call:note{{{written}}}<tool_call|>"
        return calls(read("<|tool_call>", answer, given_tools()))

    nested = "'text' :'a', at: {line: 1.5 , 'last': true}, tags:[ ], more:[{ }, [1, 'x']]"
    assert called(" ") == [("note", {})]
    assert called(nested.replace("' :", "':")) == [
        (
            "note",
            {"text": "a", "at": {"line": 1.5, "last": True}, "tags": [], "more": [{}, [1, "x"]]},
        )
    ]
    for broken in (nested, "at:{:1}", "at:{line 1}", "at:{line:one}", "at:[1 2]", "text"):
        assert called(broken) == []


@each
@pytest.mark.parametrize("half", [r"\ud800", r"a\ude00", r"\ud83d\\"])
@pytest.mark.parametrize("streams", [False, True])
def test_arguments_are_text_whatever_escapes_they_have(
    case: Case, half: str, streams: bool
) -> None:
    """JSON and Python can write half of a surrogate pair, and UTF-8 cannot."""
    for answer in (case.two.replace("3", f'"{half}"'), case.note.replace("b,c", half)):
        for part in read(case.told_by, [answer], given_tools(), streams=streams):
            if isinstance(part, CallPart):
                value = json.loads(part.arguments)
                assert json.dumps([part.name, value], ensure_ascii=False).encode()
