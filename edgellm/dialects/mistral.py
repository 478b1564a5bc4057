"""Mistral: [TOOL_CALLS] before a JSON array of calls, or, newer, before NAME[ARGS]{...}."""

from edgellm.dialects.calls import json_arguments, json_calls
from edgellm.dialects.functions import Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import MAX_NAME, Reader, Reading

OPEN, ARGS, _ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"


def read(reader: Reader) -> Reading[None]:
    while (yield from reader.say_until(OPEN)) is not None:
        yield from reader.attempt(_calls(reader), OPEN)


def _calls(reader: Reader) -> Reading[None]:
    yield from reader.skip_blanks()
    if (yield from reader.peek()) in ("[", "{"):
        yield from json_calls(reader)
        return
    name = yield from reader.until("[", "{", most=MAX_NAME)
    if (yield from reader.skip(_ID)):
        yield from reader.until(ARGS, most=MAX_NAME)
    yield from reader.skip(ARGS)
    yield from json_arguments(reader, name.strip())


def write_array(lark: Lark, tools: Tools) -> str:
    call = lark.calls(tools, "arguments")
    more = f'(", " {call})*' if tools.is_parallel else ""
    rest = f'" "? "[" {call} {more} "]"'
    return lark.once(tools, OPEN, rest)


def write_named(lark: Lark, tools: Tools) -> str:
    calls = lark.either(
        f"{lark.text(function.name)} {lark.mark(ARGS)} {lark.json(function.schema)}"
        for function in tools.callable.values()
    )
    return lark.answer(tools, OPEN, calls)
