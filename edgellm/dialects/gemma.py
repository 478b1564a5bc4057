"""Gemma 4 and FunctionGemma: call:NAME{key:value,...} between markers, and quotes of its own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.dialects.calls import Arguments
from edgellm.dialects.functions import Function, Tools, json_types
from edgellm.dialects.json_scan import MAX_DEPTH, Malformed
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import MAX_NAME, Reader, Reading
from edgellm.errors import RequestError

_CALL = "call:"
_ENDS = (",", "}", "]")
_HELD = {
    *("type", "enum", "properties", "required", "items", "title", "description", "default"),
    *("additionalProperties",),
}
_SCALARS = {
    "boolean": '("true" | "false")',
    "integer": "/-?(0|[1-9][0-9]{0,15})/",
    "number": r"/-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,16})?/",
    "null": '"null"',
}


@dataclass(frozen=True)
class Marks:
    """open, close: around a call. quote: on both sides of a string."""

    open: str
    close: str
    quote: str

    @property
    def all(self) -> tuple[str, ...]:
        return (self.open, self.close, self.quote)

    def read(self, reader: Reader) -> Reading[None]:
        while (yield from reader.say_until(self.open)) is not None:
            yield from reader.attempt(self._call(reader), self.open)

    def _call(self, reader: Reader) -> Reading[None]:
        yield from reader.expect(_CALL)
        name = yield from reader.until("{", most=MAX_NAME)
        reader.take(1)
        arguments = Arguments(reader, name)
        yield from reader.skip_blanks()
        if not (yield from reader.skip("}")):
            while True:
                key = yield from self._key(reader)
                if (yield from reader.peek(len(self.quote))) == self.quote:
                    arguments.add(key, (yield from self._string(reader)))
                elif (yield from reader.peek()) in ("{", "["):
                    arguments.add(key, (yield from self._value(reader, 1)))
                else:
                    arguments.add_bare(key, (yield from reader.until(*_ENDS)).strip())
                if not (yield from self._goes_on(reader, "}")):
                    break
        arguments.end()
        yield from reader.skip(self.close)

    def _key(self, reader: Reader) -> Reading[str]:
        yield from reader.skip_blanks()
        if (yield from reader.skip(self.quote)):
            key = yield from reader.until(self.quote, most=MAX_NAME)
            reader.take(len(self.quote))
            yield from reader.expect(":")
        else:
            key = (yield from reader.until(":", *_ENDS, most=MAX_NAME)).strip()
            yield from reader.expect(":")
        if not key:
            raise Malformed
        yield from reader.skip_blanks()
        return key

    def _goes_on(self, reader: Reader, end: str) -> Reading[bool]:
        yield from reader.skip_blanks()
        if (yield from reader.skip(",")):
            return True
        yield from reader.expect(end)
        return False

    def _value(self, reader: Reader, depth: int) -> Reading[str]:
        """A value as JSON text."""
        if depth > MAX_DEPTH:
            raise Malformed
        yield from reader.skip_blanks()
        if (yield from reader.peek(len(self.quote))) == self.quote:
            return (yield from self._string(reader))
        if (yield from reader.skip("{")):
            return (yield from self._object(reader, depth))
        if (yield from reader.skip("[")):
            return (yield from self._array(reader, depth))
        text = (yield from reader.until(*_ENDS)).strip()
        try:
            return json.dumps(json.loads(text), ensure_ascii=False, allow_nan=False)
        except (ValueError, RecursionError):
            raise Malformed from None

    def _object(self, reader: Reader, depth: int) -> Reading[str]:
        items: dict[str, str] = {}
        yield from reader.skip_blanks()
        if not (yield from reader.skip("}")):
            while True:
                key = yield from self._key(reader)
                items[key] = yield from self._value(reader, depth + 1)
                if not (yield from self._goes_on(reader, "}")):
                    break
        written = (f"{json.dumps(k, ensure_ascii=False)}: {value}" for k, value in items.items())
        return f"{{{', '.join(written)}}}"

    def _array(self, reader: Reader, depth: int) -> Reading[str]:
        items = []
        yield from reader.skip_blanks()
        if not (yield from reader.skip("]")):
            while True:
                items.append((yield from self._value(reader, depth + 1)))
                if not (yield from self._goes_on(reader, "]")):
                    break
        return f"[{', '.join(items)}]"

    def _string(self, reader: Reader) -> Reading[str]:
        reader.take(len(self.quote))
        text = yield from reader.until(self.quote)
        reader.take(len(self.quote))
        return json.dumps(text, ensure_ascii=False)

    def write(self, lark: Lark, tools: Tools) -> str:
        calls = lark.either(self._form(lark, function) for function in tools.callable.values())
        return lark.answer(tools, self.open, f"{calls} {lark.mark(self.close)}")

    def _form(self, lark: Lark, function: Function) -> str:
        head = lark.text(f"{_CALL}{function.name}{{")
        return f'{head} {self._fields(lark, function.schema, function.is_strict)} "}}"'

    def _fields(self, lark: Lark, schema: Mapping[str, Any], is_strict: bool) -> str:
        """The members of an object, those that must be there first."""
        required = schema.get("required") or ()
        fields = {
            name: f"{lark.text(name + ':')} {self._written(lark, inner, is_strict)}"
            for name, inner in (schema.get("properties") or {}).items()
        }
        must = [field for name, field in fields.items() if name in required]
        may = [field for name, field in fields.items() if name not in required]
        return lark.members(must, may, ",")

    def _written(self, lark: Lark, schema: Any, is_strict: bool) -> str:
        """A value of a schema. RequestError where it is strict and says more than can be held."""
        kinds = json_types(schema)
        if is_strict and (more := set(schema) - _HELD):
            raise RequestError(
                f"tools: this model's calls cannot be held to {min(more)!r} of a schema: leave it "
                "out, or leave out strict",
                "tools",
            )
        if isinstance(schema, Mapping) and isinstance(schema.get("enum"), list):
            return lark.either(self._constant(lark, value) for value in schema["enum"])
        choices = []
        for kind in sorted(kinds or _SCALARS.keys()):
            if kind == "object":
                choices.append(f'"{{" {self._fields(lark, schema, is_strict)} "}}"')
            elif kind == "array":
                item = self._written(lark, schema.get("items") or {}, is_strict)
                choices.append(f'"[" ({item} ("," {item})*)? "]"')
            elif kind == "string":
                choices.append(f"{lark.mark(self.quote)} {lark.until(self.quote)}")
            else:
                choices.append(_SCALARS[kind])
        return lark.either(choices)

    def _constant(self, lark: Lark, value: Any) -> str:
        if isinstance(value, str):
            return f"{lark.mark(self.quote)} {lark.text(value)} {lark.mark(self.quote)}"
        return lark.text(json.dumps(value))


GEMMA4 = Marks("<|tool_call>", "<tool_call|>", '<|"|>')
FUNCTION_GEMMA = Marks("<start_function_call>", "<end_function_call>", "<escape>")
