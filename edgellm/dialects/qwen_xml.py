"""Qwen 3 Coder and Seed-OSS: <function=NAME> with <parameter=NAME> tags, each value bare."""

from dataclasses import dataclass

from edgellm.dialects.calls import Arguments
from edgellm.dialects.functions import Function, Tools
from edgellm.dialects.json_scan import Malformed
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import MAX_NAME, Reader, Reading

_FUNCTION, _END_FUNCTION = "<function=", "</function>"
_PARAMETER, _END_PARAMETER = "<parameter=", "</parameter>"


@dataclass(frozen=True)
class Marks:
    """open, close: around a call. breaks: what grammars have on both sides of a value."""

    open: str
    close: str
    breaks: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        return (self.open, self.close)

    def read(self, reader: Reader) -> Reading[None]:
        while (mark := (yield from reader.say_until(self.open, _FUNCTION))) is not None:
            yield from reader.attempt(self._call(reader, mark), mark)

    def _call(self, reader: Reader, mark: str) -> Reading[None]:
        if mark == self.open:  # which is sometimes left out
            yield from reader.skip_blanks()
            yield from reader.expect(_FUNCTION)
        name = yield from reader.until(">", most=MAX_NAME)
        reader.take(1)
        arguments = Arguments(reader, name)
        yield from reader.skip_blanks()
        while not (yield from reader.skip(_END_FUNCTION)):
            yield from reader.expect(_PARAMETER)
            key = yield from reader.until(">", most=MAX_NAME)
            reader.take(1)
            if not key:
                raise Malformed
            value = yield from reader.until(_END_PARAMETER)
            reader.take(len(_END_PARAMETER))
            arguments.add_bare(key, value.removeprefix("\n").removesuffix("\n"))
            yield from reader.skip_blanks()
        arguments.end()
        yield from reader.skip_blanks()
        yield from reader.skip(self.close)

    def write(self, lark: Lark, tools: Tools) -> str:
        calls = lark.either(self._form(lark, function) for function in tools.callable.values())
        return lark.answer(
            tools, self.open, f'"\\n" {calls} "\\n" {lark.mark(self.close)}', '"\\n"'
        )

    def _form(self, lark: Lark, function: Function) -> str:
        def parameter(name: str, value: str) -> str:
            return f"{lark.text(f'{_PARAMETER}{name}>{self.breaks}')} {value}"

        values = lark.bare_values(function, self.breaks + _END_PARAMETER, parameter, '"\\n"')
        head = lark.text(f"{_FUNCTION}{function.name}>\n")
        return f"{head} {values} {lark.text(_END_FUNCTION)}"


QWEN = Marks("<tool_call>", "</tool_call>", "\n")
SEED = Marks("<seed:tool_call>", "</seed:tool_call>")
