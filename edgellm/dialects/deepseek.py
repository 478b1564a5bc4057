"""DeepSeek V3, R1 and V3.1, and Kimi K2: each call between markers of its own, JSON inside.

V3 and R1: CALL function SEP NAME \\n```json\\n{...}\\n``` CLOSE. V3.1: CALL NAME SEP {...} CLOSE.
Kimi K2: CALL functions.NAME:0 SEP {...} CLOSE.
"""

import re
from dataclasses import dataclass

from edgellm.dialects.calls import json_arguments
from edgellm.dialects.functions import Function, Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import MAX_NAME, Reader, Reading

_FENCE, _END_FENCE = "\n```json\n", "\n```"
_KIMI_NAME = re.compile(r"functions\.(.+):\d+")


@dataclass(frozen=True)
class Marks:
    """begin, end: of all calls. call, close: of one. sep: between its two parts.

    head: what a grammar has before sep, of a name. is_fenced: the name follows sep, and the
    arguments are in a code fence.
    """

    begin: str
    call: str
    sep: str
    close: str
    end: str
    head: str = "{}"
    is_fenced: bool = False

    @property
    def all(self) -> tuple[str, ...]:
        return (self.begin, self.call, self.sep, self.close, self.end)

    def read(self, reader: Reader) -> Reading[None]:
        while (mark := (yield from reader.say_until(self.begin, self.call))) is not None:
            is_whole = yield from reader.attempt(self._call(reader, mark), mark)
            while is_whole:
                yield from reader.skip_blanks()
                if (yield from reader.skip(self.end)):
                    break
                if not (yield from reader.skip(self.call)):
                    break
                is_whole = yield from reader.attempt(self._call(reader, self.call), self.call)

    def _call(self, reader: Reader, mark: str) -> Reading[None]:
        if mark == self.begin:
            yield from reader.skip_blanks()
            yield from reader.expect(self.call)
        name = yield from reader.until(self.sep, most=MAX_NAME)
        reader.take(len(self.sep))
        yield from reader.skip_blanks()
        is_fenced = (yield from reader.peek()) != "{"
        if is_fenced:
            name = yield from reader.until("\n", most=MAX_NAME)
            yield from reader.expect(_FENCE)
        name = name.strip()
        kimi = _KIMI_NAME.fullmatch(name)
        # Kimi's template writes the id of a call, not its name.
        yield from json_arguments(reader, kimi[1] if kimi else name, name if kimi else None)
        yield from reader.skip_blanks()
        if is_fenced:
            yield from reader.skip(_END_FENCE.strip())
        yield from reader.skip(self.close)

    def write(self, lark: Lark, tools: Tools) -> str:
        calls = lark.either(self._form(lark, function) for function in tools.callable.values())
        one = f"{lark.mark(self.call)} {calls} {lark.mark(self.close)}"
        more = f'("\\n")? {one}' if self.is_fenced else one
        many = f"{one} ({more})*" if tools.is_parallel else one
        rest = f"{many} {lark.mark(self.end)}"
        return lark.once(tools, self.begin, rest)

    def _form(self, lark: Lark, function: Function) -> str:
        sep, arguments = lark.mark(self.sep), lark.json(function.schema)
        if not self.is_fenced:
            return f"{lark.text(self.head.format(function.name))} {sep} {arguments}"
        head = lark.text(function.name + _FENCE)
        return f'"function" {sep} {head} {arguments} {lark.text(_END_FENCE)}'


V3 = Marks(
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    is_fenced=True,
)
V31 = Marks(V3.begin, V3.call, V3.sep, V3.close, V3.end)
KIMI = Marks(
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
    head="functions.{}:0",
)
