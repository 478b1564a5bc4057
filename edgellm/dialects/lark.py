"""Grammars that hold an answer to a dialect, in llguidance's Lark. Knows no dialect.

Expressions are text; what they need of rules of its own is kept here.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from edgellm.dialects.functions import Function, Tools, json_types
from edgellm.errors import RequestError

_ANY = "/(?s:.*)/"
_BARE_STRING = {"type", "enum", "title", "description", "default", "examples"}


class Lark:
    """One grammar being written. control: ids of the markers that are control tokens."""

    def __init__(self, control: Mapping[str, int]) -> None:
        self._control = control
        self._rules: list[str] = []

    def grammar(self, start: str) -> str:
        """The whole of it."""
        return "\n".join([f"start: {start}", *self._rules])

    def text(self, text: str) -> str:
        """This text and no other."""
        return json.dumps(text, ensure_ascii=False)

    def mark(self, mark: str) -> str:
        """A marker, whether it is a token or text."""
        token = self._control.get(mark)
        return self.text(mark) if token is None else f"<[{token}]>"

    def json(self, schema: Mapping[str, Any]) -> str:
        """A JSON value of this schema."""
        from edgellm.constraints import embedded  # with numpy, which those who only read do without

        return self._rule(embedded(schema))

    def any(self) -> str:
        """Any text."""
        return self._rule(_ANY)

    def until(self, mark: str) -> str:
        """Any text and the first marker after it."""
        if mark in self._control:
            return f"{self.any()} {self.mark(mark)}"
        return self._rule(_ANY, f"[suffix={self.text(mark)}]")

    def either(self, choices: Iterable[str]) -> str:
        return f"({' | '.join(choices)})"

    def members(self, must: Sequence[str], may: Sequence[str], joint: str) -> str:
        """Members of a list: all that must be there, then any that may, in their order."""
        comma = self.text(joint)
        if must:
            return " ".join([f" {comma} ".join(must), *(f"({comma} {one})?" for one in may)])
        starts = [
            " ".join([one, *(f"({comma} {later})?" for later in may[i + 1 :])])
            for i, one in enumerate(may)
        ]
        return f"{self.either(starts)}?" if starts else ""

    def call(self, function: Function, key: str) -> str:
        """A call as a JSON object. key: what it calls the arguments."""
        head = f'{{"name": {json.dumps(function.name)}, {json.dumps(key)}: '
        return f'{self.text(head)} {self.json(function.schema)} "}}"'

    def calls(self, tools: Tools, key: str) -> str:
        """One of the calls, as a JSON object."""
        return self.either(self.call(function, key) for function in tools.callable.values())

    def answer(self, tools: Tools, trigger: str, rest: str, joint: str = "") -> str:
        """Content with calls of which each is a trigger and the rest; joint: between two."""
        if not tools.is_parallel:
            return self.once(tools, trigger, rest)
        if tools.choice == "required":
            one = f"{self.mark(trigger)} {rest}"
            return f"{one} ({joint} {one})*"
        return f"({self.until(trigger)} {rest})* {self.any()}"

    def once(self, tools: Tools, trigger: str, rest: str) -> str:
        """Content with at most one trigger, and the rest after it."""
        if tools.choice == "required":
            return f"{self.mark(trigger)} {rest}"
        return f"({self.until(trigger)} {rest} | {self.any()})"

    def bare_values(
        self, function: Function, end: str, form: Callable[[str, str], str], joint: str
    ) -> str:
        """A function's arguments in the order of its schema, strings without quotes.

        end: what ends a value. form: an argument of a name and a value. joint: after each.
        RequestError when a strict function asks for more than bare strings can be held to.
        """
        found = []
        for name, schema in function.properties.items():
            value = self._bare_value(function, name, schema, end)
            argument = f"{form(name, value)} {joint}"
            found.append(argument if name in function.required else f"({argument})?")
        return " ".join(found)

    def _bare_value(self, function: Function, name: str, schema: Any, end: str) -> str:
        if json_types(schema) != {"string"}:
            inner = schema if isinstance(schema, Mapping) else {}
            return f"{self.json({**inner, **function.definitions})} {self.text(end)}"
        if function.is_strict and (more := schema.keys() - _BARE_STRING):
            raise RequestError(
                f"tools: {function.name} is strict, and this model writes strings in a way that "
                f"{min(more)!r} of {name} cannot be held: leave it out",
                "tools",
            )
        if isinstance(schema.get("enum"), list):
            return f"{self.either(map(self.text, schema['enum']))} {self.text(end)}"
        return self.until(end)

    def _rule(self, body: str, options: str = "") -> str:
        name = f"r{len(self._rules)}"
        self._rules.append(f"{name}{options}: {body}")
        return name
