"""JSON calls behind a marker, or between two: Granite 3, Phi-4, Nemotron, Hunyuan, Apriel, Command.

Granite 3: <|tool_call|>[{...}, ...]. Phi-4: <|tool_call|>{...}<|/tool_call|>, or a list. Nemotron:
<TOOLCALL>[...]</TOOLCALL>. Hunyuan and Apriel: <tool_calls>[...]</tool_calls>. Command R7B and A:
<|START_ACTION|>[{"tool_call_id": "0", "tool_name": ..., "parameters": ...}]<|END_ACTION|>.
FireFunction: functools[...].
"""

import json
from dataclasses import dataclass

from edgellm.dialects.calls import json_calls
from edgellm.dialects.functions import Function, Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import Reader, Reading

_BLANK = r"(/[ \n]{1,8}/)?"
_FORM = '{{"name": {}, "arguments": '


@dataclass(frozen=True)
class Marks:
    """open, close: around the calls; there may be no close.

    In grammars: form is the beginning of a call of a name, up to its arguments; is_list: calls are
    a list, also a single one.
    """

    open: str
    close: str = ""
    form: str = _FORM
    is_list: bool = True

    @property
    def all(self) -> tuple[str, ...]:
        return (self.open, self.close) if self.close else (self.open,)

    def read(self, reader: Reader) -> Reading[None]:
        mark = self.open.lstrip()  # models leave out a blank at the start of an answer
        while (yield from reader.say_until(mark)) is not None:
            yield from reader.attempt(self._calls(reader), mark)

    def _calls(self, reader: Reader) -> Reading[None]:
        yield from json_calls(reader)
        yield from reader.skip_blanks()
        yield from reader.skip(self.close)  # often left out at the end

    def write(self, lark: Lark, tools: Tools) -> str:
        call = lark.either(self._call(lark, function) for function in tools.callable.values())
        close = lark.mark(self.close) if self.close else ""
        if not self.is_list:
            return lark.answer(tools, self.open, f"{call} {close}")
        more = f'("," {_BLANK} {call})*' if tools.is_parallel else ""
        rest = f'{_BLANK} "[" {_BLANK} {call} {more} {_BLANK} "]" {close}'
        return lark.once(tools, self.open, rest)

    def _call(self, lark: Lark, function: Function) -> str:
        head = lark.text(self.form.format(json.dumps(function.name)))
        return f'{head} {lark.json(function.schema)} "}}"'


GRANITE = Marks("<|tool_call|>")
PHI = Marks("<|tool_call|>", "<|/tool_call|>", is_list=False)
NEMOTRON = Marks("<TOOLCALL>", "</TOOLCALL>")
TOOL_CALLS = Marks("<tool_calls>", "</tool_calls>")
COMMAND = Marks(
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    '{{"tool_call_id": "0", "tool_name": {}, "parameters": ',
)
FIRE_FUNCTION = Marks(" functools")
