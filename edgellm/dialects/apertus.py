"""Apertus: <|tools_prefix|>[{"NAME": {...}}, ...]<|tools_suffix|>, where the name is the key."""

import json

from edgellm.dialects.calls import json_arguments, json_name
from edgellm.dialects.functions import Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import Reader, Reading

OPEN, CLOSE = "<|tools_prefix|>", "<|tools_suffix|>"
MARKS = (OPEN, CLOSE)


def read(reader: Reader) -> Reading[None]:
    while (yield from reader.say_until(OPEN)) is not None:
        yield from reader.attempt(_calls(reader), OPEN)


def _calls(reader: Reader) -> Reading[None]:
    yield from reader.skip_blanks()
    yield from reader.expect("[")
    is_more = True
    while is_more:
        yield from reader.skip_blanks()
        yield from reader.expect("{")
        yield from reader.skip_blanks()
        name = yield from json_name(reader)
        yield from reader.skip_blanks()
        yield from reader.expect(":")
        yield from json_arguments(reader, name)
        yield from reader.skip_blanks()
        yield from reader.expect("}")
        yield from reader.skip_blanks()
        is_more = yield from reader.skip(",")
    yield from reader.expect("]")
    yield from reader.skip_blanks()
    yield from reader.skip(CLOSE)


def write(lark: Lark, tools: Tools) -> str:
    call = lark.either(
        f'{lark.text(f"{{{json.dumps(function.name)}: ")} {lark.json(function.schema)} "}}"'
        for function in tools.callable.values()
    )
    more = f'(", " {call})*' if tools.is_parallel else ""
    rest = f'"[" {call} {more} "]" {lark.mark(CLOSE)}'
    return lark.once(tools, OPEN, rest)
