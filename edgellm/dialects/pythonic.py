"""Calls as Python writes them: LFM 2, OLMo 3, Gemma 3's tool_code blocks, and Llama 4, whose answer
is the list and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.dialects.calls import json_calls, python_calls
from edgellm.dialects.functions import Function, Tools, json_types
from edgellm.dialects.json_scan import Malformed
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import MAX_NAME, Reader, Reading

_WORDS = {"boolean": '"True" | "False"', "null": '"None"'}


@dataclass(frozen=True)
class Marks:
    """open, close: around a list of calls, or lines of them. In grammars: before, joint, after: on
    both sides of the calls, and between two."""

    open: str
    close: str
    before: str
    joint: str
    after: str

    def read(self, reader: Reader) -> Reading[None]:
        while (yield from reader.say_until(self.open)) is not None:
            yield from reader.attempt(self._calls(reader), self.open)

    def _calls(self, reader: Reader) -> Reading[None]:
        yield from reader.skip_blanks()
        start = yield from reader.peek(2)
        if start in ("[{", '{"'):  # which LFM is sometimes told to write
            yield from json_calls(reader)
            yield from reader.skip_blanks()
            yield from reader.expect(self.close)
            return
        source = yield from reader.until(self.close)
        reader.take(len(self.close))
        python_calls(reader, source)

    def write(self, lark: Lark, tools: Tools) -> str:
        rest = f"{_list(lark, tools, self.before, self.joint, self.after)} {lark.mark(self.close)}"
        return lark.once(tools, self.open, rest)


def read_bare(reader: Reader) -> Reading[None]:
    """An answer that is a list of calls of known functions, or content."""
    yield from reader.attempt(_bare(reader), "")
    yield from reader.say_rest()


def _bare(reader: Reader) -> Reading[None]:
    yield from reader.skip_blanks()
    yield from reader.expect("[")
    name = yield from reader.until("(", most=MAX_NAME)
    if name not in reader.functions:
        raise Malformed
    python_calls(reader, f"[{name}" + (yield from reader.rest()))


def write_bare(lark: Lark, tools: Tools) -> str:
    calls = _list(lark, tools, "[", ", ", "]")
    return calls if tools.choice == "required" else rf"({calls} | /[^\[\s](?s:.*)/)"


def _list(lark: Lark, tools: Tools, before: str, joint: str, after: str) -> str:
    calls = lark.either(_call(lark, function) for function in tools.callable.values())
    more = f"({lark.text(joint)} {calls})*" if tools.is_parallel else ""
    return f"{lark.text(before)} {calls} {more} {lark.text(after)}"


def _call(lark: Lark, function: Function) -> str:
    must: list[str] = []
    may: list[str] = []
    for name, schema in function.schema.get("properties", {}).items():
        argument = f"{lark.text(f'{name}=')} {_value(lark, function, schema)}"
        (must if name in function.required else may).append(argument)
    return f'{lark.text(f"{function.name}(")} {lark.members(must, may, ", ")} ")"'


def _value(lark: Lark, function: Function, schema: Any) -> str:
    """JSON, which Python reads alike but for some words."""
    inner = schema if isinstance(schema, Mapping) else {}
    words = [word for kind, word in _WORDS.items() if kind in json_types(schema)]
    return lark.either([lark.json({**inner, **function.definitions}), *words])


LFM = Marks("<|tool_call_start|>", "<|tool_call_end|>", "[", ", ", "]")
OLMO = Marks("<function_calls>", "</function_calls>", "", "\n", "")
GEMMA_CODE = Marks("```tool_code", "```", "\n", "\n", "\n")
