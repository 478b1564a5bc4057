"""Ways to write a call that several dialects share. Knows no dialect's markers."""

import ast
import json
from collections.abc import Mapping
from typing import Any

from edgellm.dialects.functions import typed
from edgellm.dialects.json_scan import Malformed
from edgellm.dialects.reader import MAX_NAME, Reader, Reading

_ARGUMENTS = ("arguments", "parameters")
_NAMES = ("name", "tool_name")
_IGNORED = ("id", "type", "tool_call_id")


def json_arguments(reader: Reader, name: str, call_id: str | None = None) -> Reading[None]:
    """A call whose arguments come next, as a JSON object."""
    yield from reader.skip_blanks()
    if (yield from reader.peek()) != "{":
        raise Malformed
    reader.open_call(name, call_id)
    yield from reader.json(reader.add_arguments)
    reader.close_call()


def json_call(reader: Reader, only_known: bool = False) -> Reading[None]:
    """A call as a JSON object with a name and arguments, or parameters, in either order.

    only_known: the name must be a function's.
    """
    yield from reader.skip_blanks()
    yield from reader.expect("{")
    name: str | None = None
    early: str | None = None  # arguments before the name is known
    is_open = False
    while True:
        key = yield from json_name(reader)
        yield from reader.skip_blanks()
        yield from reader.expect(":")
        yield from reader.skip_blanks()
        if key in _NAMES and name is None:
            name = yield from json_name(reader)
            if only_known and name not in reader.functions:
                raise Malformed
        elif key in _ARGUMENTS and name is not None and early is None and not is_open:
            is_open = True
            reader.open_call(name)
            yield from _object(reader)
        elif key in _ARGUMENTS and early is None and not is_open:
            early = yield from _whole(reader)
        elif key in _IGNORED:
            yield from _whole(reader)
        else:
            raise Malformed
        yield from reader.skip_blanks()
        if not (yield from reader.skip(",")):
            break
        yield from reader.skip_blanks()
    yield from reader.expect("}")
    if name is None:
        raise Malformed
    if not is_open:
        reader.open_call(name)
        reader.add_arguments(_as_object(early or "{}"))
    reader.close_call()


def json_calls(reader: Reader, only_known: bool = False) -> Reading[None]:
    """One call, or an array of them. At least the first must be well-formed."""
    yield from reader.skip_blanks()
    if not (yield from reader.skip("[")):
        yield from json_call(reader, only_known)
        return
    while True:
        yield from json_call(reader, only_known)
        yield from reader.skip_blanks()
        if not (yield from reader.skip(",")):
            break
    yield from reader.expect("]")


class Arguments:
    """Arguments that a dialect writes one by one, as a JSON object."""

    def __init__(self, reader: Reader, name: str) -> None:
        reader.open_call(name)
        function = reader.functions.get(name)
        self._reader = reader
        self._properties: Mapping[str, Any] = function.properties if function else {}
        self._names: set[str] = set()

    def add(self, name: str, value: str) -> None:
        """An argument whose value is JSON text. Malformed when it was there already."""
        if name in self._names:
            raise Malformed
        before = ", " if self._names else "{"
        self._names.add(name)
        self._reader.add_arguments(f"{before}{json.dumps(name, ensure_ascii=False)}: {value}")

    def add_bare(self, name: str, text: str) -> None:
        """An argument whose value is written without quotes: its schema tells its type."""
        self.add(name, typed(text, self._properties.get(name)))

    def end(self) -> None:
        self._reader.add_arguments("}" if self._names else "{}")
        self._reader.close_call()


def python_calls(reader: Reader, source: str) -> None:
    """Calls as Python writes them: f(a=1), or a list or lines of such. Malformed when other
    things are there; nothing is executed."""
    try:
        body = ast.parse(_unfenced(source)).body
        values = [node.value for node in body if isinstance(node, ast.Expr)]
        if len(values) != len(body) or not values:
            raise Malformed
        nodes = [n for v in values for n in (v.elts if isinstance(v, ast.List) else [v])]
        calls = [(_python_name(node), _python_arguments(node)) for node in nodes]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise Malformed from None
    for name, arguments in calls:
        reader.open_call(name)
        reader.add_arguments(arguments)
        reader.close_call()


class _Words(ast.NodeTransformer):
    """JSON's words as Python's: models and templates mix them."""

    _MEANT = {"true": True, "false": False, "null": None}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self._MEANT[node.id]) if node.id in self._MEANT else node


def _unfenced(source: str) -> str:
    return source.strip().removeprefix("```python").removesuffix("```").strip()


def _python_name(node: ast.expr) -> str:
    if not isinstance(node, ast.Call) or node.args:
        raise Malformed
    return ast.unparse(node.func)


def _python_arguments(node: ast.expr) -> str:
    assert isinstance(node, ast.Call)
    if not all(keyword.arg for keyword in node.keywords):
        raise Malformed
    given = {k.arg: ast.literal_eval(_Words().visit(k.value)) for k in node.keywords}
    return json.dumps(given, ensure_ascii=False, allow_nan=False)


def json_name(reader: Reader) -> Reading[str]:
    """A JSON string that is a name."""
    if (yield from reader.peek()) != '"':
        raise Malformed
    written = yield from _whole(reader, MAX_NAME)
    return str(json.loads(written))


def _whole(reader: Reader, most: int | None = None) -> Reading[str]:
    """A JSON value's text."""
    pieces: list[str] = []

    def give(piece: str) -> None:
        pieces.append(piece)
        if most is not None and sum(map(len, pieces)) > most:
            raise Malformed

    yield from reader.json(give)
    return "".join(pieces)


def _object(reader: Reader) -> Reading[None]:
    """Arguments, of which some models write the JSON text as a string, or null."""
    if (yield from reader.peek()) == "{":
        yield from reader.json(reader.add_arguments)
    else:
        reader.add_arguments(_as_object((yield from _whole(reader))))


def _as_object(written: str) -> str:
    try:
        value = json.loads(written)
        if isinstance(value, str):
            value = json.loads(value)
            written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        raise Malformed from None
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise Malformed
    return written
