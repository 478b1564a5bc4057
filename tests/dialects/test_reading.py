"""Every dialect's calls, fed at once, letter by letter and in pieces, whole and broken."""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.dialects import CallPart, TextPart, dialect_of
from tests.dialects.reading import calls, content, given_tools, plain, read, reasoning

PARIS: tuple[str, dict[str, Any]] = ("get_weather", {"city": "Paris"})
OSLO: tuple[str, dict[str, Any]] = ("get_weather", {"city": "Oslo", "days": 3})
TEXT = 'He said "no" {or} [not]\n</x> <y'
NOTE: tuple[str, dict[str, Any]] = ("note", {"text": TEXT, "tags": ["a", "b,c"]})
QUOTED = '"He said \\"no\\" {or} [not]\\n</x> <y"'


@dataclass(frozen=True)
class Case:
    """told_by: what a template has that tells the dialect. one, two, note: answers with a call of
    Paris, calls of Paris and Oslo, one of NOTE. head: what is before content."""

    name: str
    told_by: str
    one: str
    two: str
    note: str
    head: str = ""


def json_call(name: str, arguments: str, key: str = "arguments") -> str:
    return f'{{"name": "{name}", "{key}": {arguments}}}'


def tagged(*inner: str) -> str:
    return "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in inner)


def xml(name: str, *parameters: tuple[str, str]) -> str:
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<function={name}>\n{inner}</function>"


def glm(name: str, *arguments: tuple[str, str]) -> str:
    inner = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in arguments
    )
    return f"<tool_call>{name}\n{inner}</tool_call>"


def deepseek(*inner: str) -> str:
    joined = "\n".join(f"<｜tool▁call▁begin｜>{text}<｜tool▁call▁end｜>" for text in inner)
    return f"<｜tool▁calls▁begin｜>{joined}<｜tool▁calls▁end｜>"


def gigachat(call: str) -> str:
    return f"<|message_sep|>\n\nfunction call<|role_sep|>\n{call}"


def fenced(name: str, arguments: str) -> str:
    return f"function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```"


def kimi(*inner: tuple[str, str]) -> str:
    joined = "".join(
        f"<|tool_call_begin|>functions.{name}:{i}<|tool_call_argument_begin|>{a}<|tool_call_end|>"
        for i, (name, a) in enumerate(inner)
    )
    return f"<|tool_calls_section_begin|>{joined}<|tool_calls_section_end|>"


def harmony(name: str, arguments: str) -> str:
    header = f"commentary to=functions.{name} <|constrain|>json"
    return f"<|channel|>{header}<|message|>{arguments}"


def command(name: str, arguments: str) -> str:
    return f'{{"tool_call_id": "0", "tool_name": "{name}", "parameters": {arguments}}}'


def invoked(name: str, *parameters: tuple[str, str]) -> str:
    inner = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in parameters)
    return f'<invoke name="{name}">\n{inner}</invoke>'


def invoke(block: str, *calls: str) -> str:
    return "\n".join([f"<{block}>", *calls, f"</{block}>"])


def dsml(*calls: str) -> str:
    """The same in DeepSeek's tags, which say what is text: a city, a text."""
    tagged = [re.sub(r"<(/?)(invoke|parameter)", r"<\1｜DSML｜\2", call) for call in calls]
    told = [re.sub(r'="(city|text)">', r'="\1" string="true">', call) for call in tagged]
    told = [re.sub(r'="(days|tags)">', r'="\1" string="false">', call) for call in told]
    return invoke("｜DSML｜function_calls", *told)


def seed(*calls: tuple[str, str]) -> str:
    return "\n".join(
        f"<seed:tool_call>\n<function={name}>\n{inner}</function>\n</seed:tool_call>"
        for name, inner in calls
    )


_PARIS, _OSLO = '{"city": "Paris"}', '{"city": "Oslo", "days": 3}'
_NOTE = f'{{"text": {QUOTED}, "tags": ["a", "b,c"]}}'
_TAGS = '["a", "b,c"]'
_NEXT = "<|call|><|start|>assistant"
CASES = (
    Case(
        "hermes",
        "<tool_call>",
        tagged(json_call("get_weather", _PARIS)),
        tagged(json_call("get_weather", _PARIS), json_call("get_weather", _OSLO)),
        tagged(f'{{"arguments": {_NOTE}, "name": "note"}}'),
    ),
    Case(
        "qwen xml",
        "<tool_call> <function=a> <parameter=b>",
        tagged(xml("get_weather", ("city", "Paris"))),
        tagged(xml("get_weather", ("city", "Paris")))
        + "\n"
        + xml("get_weather", ("city", "Oslo"), ("days", "3")),
        tagged(xml("note", ("text", TEXT), ("tags", "['a', 'b,c']"))),
    ),
    Case(
        "glm",
        "<tool_call> <arg_key>",
        glm("get_weather", ("city", "Paris")),
        glm("get_weather", ("city", "Paris")) + glm("get_weather", ("city", "Oslo"), ("days", "3")),
        glm("note", ("text", TEXT), ("tags", _TAGS)),
    ),
    Case(
        "deepseek v3",
        "<｜tool▁calls▁begin｜> ```json",
        deepseek(fenced("get_weather", _PARIS)),
        deepseek(fenced("get_weather", _PARIS), fenced("get_weather", _OSLO)),
        deepseek(fenced("note", _NOTE)),
    ),
    Case(
        "deepseek v3.1",
        "<｜tool▁calls▁begin｜>",
        deepseek(f"get_weather<｜tool▁sep｜>{_PARIS}"),
        deepseek(f"get_weather<｜tool▁sep｜>{_PARIS}", f"get_weather<｜tool▁sep｜>{_OSLO}"),
        deepseek(f"note<｜tool▁sep｜>{_NOTE}"),
    ),
    Case(
        "kimi",
        "<|tool_calls_section_begin|>",
        kimi(("get_weather", _PARIS)),
        kimi(("get_weather", _PARIS), ("get_weather", _OSLO)),
        kimi(("note", _NOTE)),
    ),
    Case(
        "mistral json",
        "[TOOL_CALLS]",
        f"[TOOL_CALLS] [{json_call('get_weather', _PARIS)}]",
        f"[TOOL_CALLS][{json_call('get_weather', _PARIS)}, {json_call('get_weather', _OSLO)}]",
        f'[TOOL_CALLS] [{json_call("note", _NOTE)[:-1]}, "id": "123456789"}}]',
    ),
    Case(
        "mistral",
        "[TOOL_CALLS] [ARGS]",
        f"[TOOL_CALLS]get_weather[ARGS]{_PARIS}",
        f"[TOOL_CALLS]get_weather[CALL_ID]123456789[ARGS]{_PARIS}"
        f"[TOOL_CALLS]get_weather[ARGS]{_OSLO}",
        f"[TOOL_CALLS]note{_NOTE}",
    ),
    Case(
        "gemma 4",
        "<|tool_call>",
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>',
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>'
        '<|tool_call>call:get_weather{city:<|"|>Oslo<|"|>,days:3}<tool_call|>',
        f'<|tool_call>call:note{{text:<|"|>{TEXT}<|"|>,tags:[<|"|>a<|"|>,<|"|>b,c<|"|>]}}<tool_call|>',
    ),
    Case(
        "function gemma",
        "<start_function_call>",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>"
        "<start_function_call>call:get_weather{city:<escape>Oslo<escape>,days:3}<end_function_call>",
        f"<start_function_call>call:note{{text:<escape>{TEXT}<escape>,"
        "tags:[<escape>a<escape>,<escape>b,c<escape>]}<end_function_call>",
    ),
    Case(
        "llama",
        "<|python_tag|>",
        json_call("get_weather", _PARIS, "parameters"),
        "<|python_tag|>"
        + json_call("get_weather", _PARIS, "parameters")
        + "; "
        + json_call("get_weather", _OSLO, "parameters"),
        f'{{"type": "function", {json_call("note", _NOTE, "parameters")[1:]}',
    ),
    Case(
        "json",
        "",
        json_call("get_weather", _PARIS),
        f"[{json_call('get_weather', _PARIS)},\n{json_call('get_weather', _OSLO)}]",
        json_call("note", _NOTE),
    ),
    Case(
        "harmony",
        "<|channel|><|message|>",
        harmony("get_weather", _PARIS) + "<|call|>",
        harmony("get_weather", _PARIS) + _NEXT + harmony("get_weather", _OSLO),
        f"<|start|>assistant to=functions.note<|channel|>commentary json<|message|>{_NOTE}",
        head="<|channel|>final<|message|>",
    ),
    Case(
        "granite",
        "<|tool_call|>",
        f"<|tool_call|>[{json_call('get_weather', _PARIS)}]",
        f"<|tool_call|>[{json_call('get_weather', _PARIS)}, {json_call('get_weather', _OSLO)}]",
        f"<|tool_call|> [{json_call('note', _NOTE)}]",
    ),
    Case(
        "phi",
        "<|tool_call|> <|/tool_call|>",
        f"<|tool_call|>{json_call('get_weather', _PARIS)}<|/tool_call|>",
        f"<|tool_call|>{json_call('get_weather', _PARIS)}<|/tool_call|>"
        f"<|tool_call|>{json_call('get_weather', _OSLO)}<|/tool_call|>",
        f"<|tool_call|>[{json_call('note', _NOTE)}]<|/tool_call|>",
    ),
    Case(
        "nemotron",
        "<TOOLCALL>",
        f"<TOOLCALL>[{json_call('get_weather', _PARIS)}]</TOOLCALL>",
        f"<TOOLCALL>[{json_call('get_weather', _PARIS)}, {json_call('get_weather', _OSLO)}]"
        "</TOOLCALL>",
        f"<TOOLCALL>[{json_call('note', _NOTE)}]</TOOLCALL>",
    ),
    Case(
        "tool calls",
        "<tool_call> <tool_calls>",
        f"<tool_calls>[{json_call('get_weather', _PARIS)}]</tool_calls>",
        f"<tool_calls>[{json_call('get_weather', _PARIS)}, {json_call('get_weather', _OSLO)}]"
        "</tool_calls>",
        f'<tool_calls>[{json_call("note", _NOTE)[:-1]}, "id": "a1"}}]</tool_calls>',
    ),
    Case(
        "command",
        "<|START_ACTION|>",
        f"<|START_ACTION|>[\n    {command('get_weather', _PARIS)}\n]<|END_ACTION|>",
        f"<|START_ACTION|>[\n    {command('get_weather', _PARIS)},\n"
        f"    {command('get_weather', _OSLO)}\n]<|END_ACTION|>",
        f"<|START_ACTION|>[{command('note', _NOTE)}]<|END_ACTION|>",
    ),
    Case(
        "fire function",
        " functools[",
        f" functools[{json_call('get_weather', _PARIS)}]",
        f" functools[{json_call('get_weather', _PARIS)}, {json_call('get_weather', _OSLO)}]",
        f" functools[{json_call('note', _NOTE)}]",
    ),
    Case(
        "gigachat",
        "function call<|role_sep|>",
        gigachat(json_call("get_weather", _PARIS)),
        gigachat(json_call("get_weather", _PARIS)) + gigachat(json_call("get_weather", _OSLO)),
        gigachat(json_call("note", _NOTE)),
    ),
    Case(
        "apertus",
        "<|tools_prefix|>",
        f'<|tools_prefix|>[{{"get_weather": {_PARIS}}}]<|tools_suffix|>',
        f'<|tools_prefix|>[{{"get_weather": {_PARIS}}}, {{"get_weather": {_OSLO}}}]'
        "<|tools_suffix|>",
        f'<|tools_prefix|>[{{"note": {_NOTE}}}]<|tools_suffix|>',
    ),
    Case(
        "minimax",
        "<minimax:tool_call>",
        invoke("minimax:tool_call", invoked("get_weather", ("city", "Paris"))),
        invoke(
            "minimax:tool_call",
            invoked("get_weather", ("city", "Paris")),
            invoked("get_weather", ("city", "Oslo"), ("days", "3")),
        ),
        invoke("minimax:tool_call", invoked("note", ("text", TEXT), ("tags", _TAGS))),
    ),
    Case(
        "dsml",
        "｜DSML｜",
        dsml(invoked("get_weather", ("city", "Paris"))),
        dsml(
            invoked("get_weather", ("city", "Paris")),
            invoked("get_weather", ("city", "Oslo"), ("days", "3")),
        ),
        dsml(invoked("note", ("text", TEXT), ("tags", _TAGS))),
    ),
    Case(
        "seed",
        "<seed:tool_call> <function= <parameter=",
        seed(("get_weather", "<parameter=city>Paris</parameter>\n")),
        seed(
            ("get_weather", "<parameter=city>Paris</parameter>\n"),
            ("get_weather", "<parameter=city>Oslo</parameter>\n<parameter=days>3</parameter>\n"),
        ),
        seed(
            ("note", f"<parameter=text>{TEXT}</parameter>\n<parameter=tags>{_TAGS}</parameter>\n")
        ),
    ),
    Case(
        "functionary",
        ">>>all",
        f"get_weather\n{_PARIS}",
        f"get_weather\n{_PARIS}\n>>>get_weather\n{_OSLO}",
        f"note\n{_NOTE}",
        head="all\n",
    ),
    Case(
        "function tags",
        "<function=name>",
        f"<function=get_weather>{_PARIS}</function>",
        f"<function=get_weather>{_PARIS}</function><function=get_weather>{_OSLO}</function>",
        f"<function=note>{_NOTE}</function>",
    ),
    Case(
        "olmo",
        "<function_calls>",
        '<function_calls>get_weather(city="Paris")</function_calls>',
        '<function_calls>get_weather(city="Paris")\nget_weather(city="Oslo", days=3)'
        "</function_calls>",
        f"<function_calls>note(text={TEXT!r}, tags=['a', 'b,c'])</function_calls>",
    ),
    Case(
        "python list",
        "[func_name1(params_name1=params_value1",
        '[get_weather(city="Paris")]',
        '[get_weather(city="Paris"), get_weather(city="Oslo", days=3)]',
        f"[note(text={TEXT!r}, tags=['a', 'b,c'])]",
    ),
    Case(
        "lfm",
        "<|tool_call_start|>",
        '<|tool_call_start|>[get_weather(city="Paris")]<|tool_call_end|>',
        '<|tool_call_start|>[get_weather(city="Paris"), get_weather(city="Oslo", days=3)]'
        "<|tool_call_end|>",
        f"<|tool_call_start|>[note(text={TEXT!r}, tags=['a', 'b,c'])]<|tool_call_end|>",
    ),
    Case(
        "gemma code",
        "tool_code",
        '```tool_code\nget_weather(city="Paris")\n```',
        '```tool_code\nget_weather(city="Paris")\nget_weather(city="Oslo", days=3)\n```',
        f"```tool_code\nnote(text={TEXT!r}, tags=['a', 'b,c'])\n```",
    ),
)
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
