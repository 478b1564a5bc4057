"""Answers with calls, as each dialect writes them. Holds no tests."""

import re
from dataclasses import dataclass
from typing import Any

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
