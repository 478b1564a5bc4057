"""GLM from 4.5 on: the name, then <arg_key> and <arg_value> tags in <tool_call>, values bare."""

from edgellm.dialects.calls import Arguments
from edgellm.dialects.functions import Function, Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import MAX_NAME, Reader, Reading

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_KEY, _END_KEY = "<arg_key>", "</arg_key>"
_VALUE, _END_VALUE = "<arg_value>", "</arg_value>"
_BREAK = '("\\n")?'  # from GLM 4.7 on there is none


def read(reader: Reader) -> Reading[None]:
    while (yield from reader.say_until(OPEN)) is not None:
        yield from reader.attempt(_call(reader), OPEN)


def _call(reader: Reader) -> Reading[None]:
    name = yield from reader.until(_KEY, CLOSE, most=MAX_NAME)
    arguments = Arguments(reader, name.strip())
    while not (yield from reader.skip(CLOSE)):
        yield from reader.expect(_KEY)
        key = yield from reader.until(_END_KEY, most=MAX_NAME)
        reader.take(len(_END_KEY))
        yield from reader.skip_blanks()
        yield from reader.expect(_VALUE)
        value = yield from reader.until(_END_VALUE)
        reader.take(len(_END_VALUE))
        arguments.add_bare(key.strip(), value)
        yield from reader.skip_blanks()
    arguments.end()


def write(lark: Lark, tools: Tools) -> str:
    calls = lark.either(_form(lark, function) for function in tools.callable.values())
    return lark.answer(tools, OPEN, f"{calls} {lark.mark(CLOSE)}", '"\\n"')


def _form(lark: Lark, function: Function) -> str:
    def argument(name: str, value: str) -> str:
        key = f"{lark.mark(_KEY)} {lark.text(name)} {lark.mark(_END_KEY)}"
        return f"{key} {_BREAK} {lark.mark(_VALUE)} {value}"

    values = lark.bare_values(function, _END_VALUE, argument, _BREAK)
    return f"{lark.text(function.name)} {_BREAK} {values}"
