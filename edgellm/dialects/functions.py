"""The tools of a request, and whether one must be called. Data, and how it is read."""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgellm.errors import RequestError

_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@dataclass(frozen=True)
class Function:
    """parameters: a JSON schema of an object. is_strict: arguments must be valid by it."""

    name: str
    parameters: Mapping[str, Any]
    is_strict: bool = False

    @property
    def properties(self) -> Mapping[str, Any]:
        found = self.parameters.get("properties")
        return found if isinstance(found, Mapping) else {}

    @property
    def required(self) -> Sequence[str]:
        found = self.parameters.get("required")
        return found if isinstance(found, list | tuple) else ()

    @property
    def definitions(self) -> Mapping[str, Any]:
        """What parts of its schema may refer to."""
        known = ("$defs", "definitions")
        return {key: self.parameters[key] for key in known if key in self.parameters}

    @property
    def schema(self) -> Mapping[str, Any]:
        """What arguments can be held to. RequestError when that is not all and it is strict."""
        from edgellm.constraints import schema_text  # with numpy: not for an answer without tools

        try:
            schema_text(self.parameters)
        except RequestError as error:
            if not self.is_strict:
                return _ANY_OBJECT
            raise RequestError(f"tools: {self.name} is strict and its {error}", "tools") from None
        return {"type": "object", **self.parameters}


@dataclass(frozen=True)
class Tools:
    """What a request says of tools. described: as it wrote them. functions: by name.

    choice: whether to call is the model's choice, it must, or it must not. is_parallel: several
    calls may come in one answer.
    """

    described: tuple[Mapping[str, Any], ...] = ()
    functions: Mapping[str, Function] | None = None
    choice: Literal["auto", "required", "none"] = "auto"
    is_parallel: bool = True

    @property
    def callable(self) -> Mapping[str, Function]:
        return {} if self.choice == "none" else self.functions or {}

    @property
    def is_held(self) -> bool:
        """Whether the answer must be held to the form of calls."""
        return bool(self.callable) and (
            self.choice == "required"
            or not self.is_parallel
            or any(function.is_strict for function in self.callable.values())
        )


def read_tools(
    tools: Sequence[Any] | None, choice: Any = "auto", is_parallel: bool = True
) -> Tools:
    """tools, choice (`tool_choice`): as in OpenAI's chat API. RequestError names what is wrong."""
    functions = {}
    for i, tool in enumerate(tools or ()):
        function = _function(tool, f"tools[{i}]")
        if function.name in functions:
            raise RequestError(f"tools: {function.name!r} is there twice", "tools")
        functions[function.name] = function
    if isinstance(choice, Mapping):
        names, choice = _named(choice)
        for name in names:
            if name not in functions:
                raise RequestError(f"tool_choice: no tool has the name {name!r}", "tool_choice")
        functions = {name: functions[name] for name in names}
    if choice in ("any", "required") and not functions:
        raise RequestError("tool_choice asks for a call and there are no tools", "tool_choice")
    known: dict[Any, Literal["auto", "required", "none"]]
    known = {
        None: "auto",
        "auto": "auto",
        "none": "none",
        "required": "required",
        "any": "required",
    }
    if not isinstance(choice, str | None) or choice not in known:
        raise RequestError(
            f"tool_choice is {choice!r}: auto, none, required or a function is expected",
            "tool_choice",
        )
    return Tools(tuple(tools or ()), functions, known[choice], is_parallel)


def _function(tool: Any, where: str) -> Function:
    inner = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(inner, Mapping) or tool.get("type", "function") != "function":
        raise RequestError(f"{where} is no function: only functions can be called", "tools")
    name, parameters = inner.get("name"), inner.get("parameters")
    if not isinstance(name, str) or not name:
        raise RequestError(f"{where}.function has no name", "tools")
    if not isinstance(parameters, Mapping | None):
        raise RequestError(f"{where}.function.parameters is no JSON schema", "tools")
    return Function(name, parameters or _ANY_OBJECT, inner.get("strict") is True)


def _named(choice: Mapping[str, Any]) -> tuple[list[str], Any]:
    """The functions that may be called, and whether one must be: a single one, or OpenAI's
    allowed_tools, with or without an object of that name around what it says."""
    if choice.get("type") == "allowed_tools":
        inner = choice.get("allowed_tools")
        allowed = inner if isinstance(inner, Mapping) else choice
        tools = allowed.get("tools")
        named = tools if isinstance(tools, list) else []
        return [_name(tool) for tool in named], allowed.get("mode", "auto")
    return [_name(choice)], "required"


def _name(choice: Any) -> str:
    inner = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str):
        raise RequestError("tool_choice names no function", "tool_choice")
    return name


def typed(text: str, schema: Any) -> str:
    """A value that was written bare, as JSON text: of the schema's type where it can be."""
    types = json_types(schema)
    if types == {"string"}:
        return json.dumps(text, ensure_ascii=False)
    for read in (json.loads, ast.literal_eval):  # some templates write values as Python does
        try:
            value = read(text)
            written = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        if types and not any(_is_of(value, kind) for kind in types):
            continue
        if not types and read is ast.literal_eval:
            continue
        return written
    return json.dumps(text, ensure_ascii=False)


def json_types(schema: Any) -> set[str]:
    """The JSON types that a schema allows; empty when it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    named = schema.get("type")
    if isinstance(named, str):
        return {named}
    if isinstance(named, list):
        return {kind for kind in named if isinstance(kind, str)}
    if isinstance(schema.get("enum"), list):
        return {_type_of(value) for value in schema["enum"]}
    if "const" in schema:
        return {_type_of(schema["const"])}
    choices = [schema[key] for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list)]
    inner = [json_types(choice) for one in choices for choice in one]
    return set().union(*inner) if all(inner) else set()


def _type_of(value: Any) -> str:
    return next((kind for kind in _JSON_TYPES if _is_of(value, kind)), "string")


def _is_of(value: Any, kind: str) -> bool:
    is_number = kind in ("integer", "number")
    return isinstance(value, _JSON_TYPES.get(kind, ())) and not (
        is_number and isinstance(value, bool)
    )
