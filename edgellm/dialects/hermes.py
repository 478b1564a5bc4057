"""Hermes, Qwen 2.5 and 3, and many more: JSON between <tool_call> tags."""

from edgellm.dialects.bare_json import bare
from edgellm.dialects.calls import json_calls
from edgellm.dialects.functions import Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import Reader, Reading

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def read(reader: Reader) -> Reading[None]:
    yield from bare(reader)  # small models forget the tags
    while (yield from reader.say_until(OPEN)) is not None:
        yield from reader.attempt(_call(reader), OPEN)


def _call(reader: Reader) -> Reading[None]:
    yield from json_calls(reader)
    yield from reader.skip_blanks()
    yield from reader.skip(CLOSE)  # often left out at the end


def write(lark: Lark, tools: Tools) -> str:
    rest = f'"\\n" {lark.calls(tools, "arguments")} "\\n" {lark.mark(CLOSE)}'
    return lark.answer(tools, OPEN, rest, '"\\n"')
