"""Functionary: >>>NAME and a line of JSON, where the name "all" means what is said (3.2), or
<function=NAME>{...}</function> (3.1, and Llama 3.1's own way for functions of the user).

The prompt of 3.2 ends with >>>, so that an answer begins with a name.
"""

from edgellm.dialects.calls import json_arguments
from edgellm.dialects.functions import Tools
from edgellm.dialects.json_scan import Malformed
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import MAX_NAME, Reader, Reading

_TO, _SAID = ">>>", "all"
ALL = _TO + _SAID
_FUNCTION, _END = "<function=", "</function>"


def read(reader: Reader) -> Reading[None]:
    yield from reader.skip(_TO)
    mark: str | None = ""
    while mark is not None:
        yield from reader.attempt(_part(reader), mark)
        mark = yield from reader.say_until(_TO)


def _part(reader: Reader) -> Reading[None]:
    """The head of what is said, or a whole call."""
    name = (yield from reader.until("\n", most=MAX_NAME)).strip()
    reader.take(1)
    if name == _SAID:
        reader.drop_blanks()
    elif name in reader.functions:
        yield from json_arguments(reader, name)
    else:
        raise Malformed


def write(lark: Lark, tools: Tools) -> str:
    calls = lark.either(
        f"{lark.text(f'{function.name}' + chr(10))} {lark.json(function.schema)}"
        for function in tools.callable.values()
    )
    to = f'("\\n")? {lark.text(_TO)}'
    many = f"{calls} ({to} {calls})*" if tools.is_parallel else calls
    if tools.choice == "required":
        return many
    said = lark.text(_SAID + "\n")
    return f"({many} | {said} {lark.until(_TO)} {many} | {said} {lark.any()})"


def say(lark: Lark, said: str) -> str:
    """An answer whose content is what the expression `said` is."""
    head = lark.text(_SAID + "\n")
    return f"{head} {said}"


def read_tags(reader: Reader) -> Reading[None]:
    while (yield from reader.say_until(_FUNCTION)) is not None:
        yield from reader.attempt(_tag(reader), _FUNCTION)


def _tag(reader: Reader) -> Reading[None]:
    name = yield from reader.until(">", most=MAX_NAME)
    reader.take(1)
    yield from json_arguments(reader, name)
    yield from reader.skip_blanks()
    yield from reader.skip(_END)


def write_tags(lark: Lark, tools: Tools) -> str:
    calls = lark.either(
        f"{lark.text(f'{function.name}>')} {lark.json(function.schema)} {lark.text(_END)}"
        for function in tools.callable.values()
    )
    return lark.answer(tools, _FUNCTION, calls)
