"""Qwen 3 Coder: <function=NAME> with <parameter=NAME> tags, each value bare, in <tool_call>."""

from edgellm.dialects.calls import Arguments
from edgellm.dialects.functions import Function, Tools
from edgellm.dialects.json_scan import Malformed
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import MAX_NAME, Reader, Reading

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION, _END_FUNCTION = "<function=", "</function>"
_PARAMETER, _END_PARAMETER = "<parameter=", "</parameter>"


def read(reader: Reader) -> Reading[None]:
    while (mark := (yield from reader.say_until(OPEN, _FUNCTION))) is not None:
        yield from reader.attempt(_call(reader, mark), mark)


def _call(reader: Reader, mark: str) -> Reading[None]:
    if mark == OPEN:  # which is sometimes left out
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
    yield from reader.skip(CLOSE)


def write(lark: Lark, tools: Tools) -> str:
    calls = lark.either(_form(lark, function) for function in tools.callable.values())
    return lark.answer(tools, OPEN, f'"\\n" {calls} "\\n" {lark.mark(CLOSE)}', '"\\n"')


def _form(lark: Lark, function: Function) -> str:
    def parameter(name: str, value: str) -> str:
        return f"{lark.text(f'{_PARAMETER}{name}>' + chr(10))} {value}"

    values = lark.bare_values(function, "\n" + _END_PARAMETER, parameter, '"\\n"')
    head = lark.text(f"{_FUNCTION}{function.name}>\n")
    return f"{head} {values} {lark.text(_END_FUNCTION)}"
