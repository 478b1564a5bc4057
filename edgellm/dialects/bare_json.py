"""Calls as JSON and nothing around it, for Llama 3 and for models that know no calls at all.

Llama 3 also writes <|python_tag|> before a call as JSON, before NAME.call(...), or before code for
its interpreter. Content that is no call may begin with a bracket too: then it is just content.
"""

import json
from typing import Any

from edgellm.dialects.calls import json_call, json_calls, python_calls
from edgellm.dialects.functions import Function, Tools
from edgellm.dialects.json_scan import Malformed
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import Reader, Reading
from edgellm.errors import RequestError

PYTHON_TAG = "<|python_tag|>"
_INTERPRETERS = ("code_interpreter", "python", "ipython")
_SEPARATORS = ";,"  # seen between calls


def read(reader: Reader) -> Reading[None]:
    """An answer that is all JSON, or all content."""
    yield from bare(reader)
    while (yield from reader.say_until(PYTHON_TAG)) is not None:
        yield from reader.attempt(_tagged(reader), PYTHON_TAG)


def bare(reader: Reader) -> Reading[None]:
    """Calls of known functions at the beginning of an answer, if there are such."""
    yield from reader.attempt(_bare(reader), "")


def _bare(reader: Reader) -> Reading[None]:
    yield from reader.skip_blanks()
    if (yield from reader.peek()) not in ("{", "["):
        raise Malformed
    yield from json_calls(reader, only_known=True)
    yield from _more(reader)


def _more(reader: Reader) -> Reading[None]:
    """Further calls after a separator, or after nothing; what else comes is content."""
    is_call = True
    while is_call:
        yield from reader.skip_blanks()
        if (yield from reader.peek()) not in ("{", *_SEPARATORS):
            return
        mark = reader.take(1) if (yield from reader.peek()) in _SEPARATORS else ""
        is_call = yield from reader.attempt(json_call(reader, only_known=True), mark)


def _tagged(reader: Reader) -> Reading[None]:
    yield from reader.skip_blanks()
    if (yield from reader.peek()) in ("{", "["):
        yield from json_calls(reader)
        yield from _more(reader)
        return
    code = yield from reader.rest()
    interpreter = next((name for name in _INTERPRETERS if name in reader.functions), None)
    if interpreter is not None:
        reader.open_call(interpreter)
        reader.add_arguments(json.dumps({"code": code}, ensure_ascii=False))
        reader.close_call()
    else:
        python_calls(reader, code.replace(".call(", "("))


def write_llama(lark: Lark, tools: Tools) -> str:
    return _write(lark, tools, "parameters")


def write(lark: Lark, tools: Tools) -> str:
    return _write(lark, tools, "arguments")


def choose_llama(lark: Lark, tools: Tools, said: Any) -> str:
    return _choose(lark, tools, said, "parameters")


def choose(lark: Lark, tools: Tools, said: Any) -> str:
    return _choose(lark, tools, said, "arguments")


def _choose(lark: Lark, tools: Tools, said: Any, key: str) -> str:
    """One call, or JSON of the schema `said`: both as one schema."""
    forms = [(_call_schema(function, key), function.schema) for function in tools.callable.values()]
    definitions: dict[str, Any] = {}
    for _, schema in (*forms, (said, said)):
        for name in ("$defs", "definitions"):
            defined = schema.get(name)
            for inner, meant in defined.items() if isinstance(defined, dict) else ():
                if definitions.setdefault(name, {}).setdefault(inner, meant) != meant:
                    raise RequestError(
                        f"tools: {inner!r} is defined in two ways in the schemas of tools and "
                        "response_format: give one of them another name",
                        "tools",
                    )
    return lark.json({"anyOf": [*(form for form, _ in forms), said], **definitions})


def _call_schema(function: Function, key: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": function.name}, key: function.schema},
        "required": ["name", key],
        "additionalProperties": False,
    }


def _write(lark: Lark, tools: Tools, key: str) -> str:
    call = lark.calls(tools, key)
    calls = f'{call} ("; " {call})*' if tools.is_parallel else call
    return calls if tools.choice == "required" else rf"({calls} | /[^\{{\[\s](?s:.*)/)"
