"""MiniMax M2 and DeepSeek V3.2: <invoke name="NAME"> with <parameter name="NAME"> tags in it.

DeepSeek's tags begin with ｜DSML｜ and say of each value whether it is text: string="true".
"""

import json
import re
from dataclasses import dataclass

from edgellm.dialects.calls import Arguments
from edgellm.dialects.functions import Function, Tools, json_types
from edgellm.dialects.json_scan import Malformed
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import MAX_NAME, Reader, Reading

_PARAMETER = re.compile(r' name="([^"]+)"(?: string="(true|false)")?')


@dataclass(frozen=True)
class Marks:
    """block: the tag around all calls. prefix: what its and all tags within it begin with.

    says_kind: of each parameter, whether it is text.
    """

    block: str
    prefix: str = ""
    says_kind: bool = False

    @property
    def open(self) -> str:
        return f"<{self.block}>"

    @property
    def close(self) -> str:
        return f"</{self.block}>"

    @property
    def all(self) -> tuple[str, ...]:
        return (self.open, self.close)

    def read(self, reader: Reader) -> Reading[None]:
        while (yield from reader.say_until(self.open)) is not None:
            yield from reader.attempt(self._calls(reader), self.open)

    def _calls(self, reader: Reader) -> Reading[None]:
        is_over = False
        while not is_over:
            yield from self._call(reader)
            yield from reader.skip_blanks()
            is_over = yield from reader.skip(self.close)

    def _call(self, reader: Reader) -> Reading[None]:
        yield from reader.skip_blanks()
        yield from reader.expect(f'<{self.prefix}invoke name="')
        name = yield from reader.until('"', most=MAX_NAME)
        yield from reader.expect('">')
        arguments = Arguments(reader, name)
        yield from reader.skip_blanks()
        while not (yield from reader.skip(f"</{self.prefix}invoke>")):
            yield from self._parameter(reader, arguments)
            yield from reader.skip_blanks()
        arguments.end()

    def _parameter(self, reader: Reader, arguments: Arguments) -> Reading[None]:
        end = f"</{self.prefix}parameter>"
        yield from reader.expect(f"<{self.prefix}parameter")
        told = _PARAMETER.fullmatch((yield from reader.until(">", most=MAX_NAME)))
        if told is None:
            raise Malformed
        reader.take(1)
        value = yield from reader.until(end)
        reader.take(len(end))
        if told[2] == "true":
            arguments.add(told[1], json.dumps(value, ensure_ascii=False))
        else:
            arguments.add_bare(told[1], value)

    def write(self, lark: Lark, tools: Tools) -> str:
        call = lark.either(self._form(lark, function) for function in tools.callable.values())
        calls = f'{call} ("\\n" {call})*' if tools.is_parallel else call
        rest = f'"\\n" {calls} "\\n" {lark.mark(self.close)}'
        return lark.once(tools, self.open, rest)

    def _form(self, lark: Lark, function: Function) -> str:
        def parameter(name: str, value: str) -> str:
            is_text = json_types(function.properties[name]) == {"string"}
            kind = f' string="{str(is_text).lower()}"' if self.says_kind else ""
            head = f'<{self.prefix}parameter name="{name}"{kind}>'
            return f"{lark.text(head)} {value}"

        end = f"</{self.prefix}parameter>"
        values = lark.bare_values(function, end, parameter, '"\\n"')
        head = lark.text(f'<{self.prefix}invoke name="{function.name}">\n')
        return f"{head} {values} {lark.text(f'</{self.prefix}invoke>')}"


MINIMAX = Marks("minimax:tool_call")
DSML = Marks("｜DSML｜function_calls", "｜DSML｜", says_kind=True)
