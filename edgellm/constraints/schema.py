"""JSON Schemas: which keywords count. Knows nothing of tokens.

A keyword that is not known here is an error: what it asks for would silently not be held.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from edgellm.constraints.closed import close_objects
from edgellm.constraints.strict import make_strict
from edgellm.errors import RequestError

# What holds one schema, a list of them, or schemas by name.
_ONE = {"additionalProperties", "items", "additionalItems"}
_LISTS = {"allOf", "anyOf", "oneOf", "prefixItems", "items"}
_NAMED = {"properties", "patternProperties", "$defs", "definitions"}
_HELD = {
    *("type", "enum", "const", "$ref", "required", "minProperties", "maxProperties"),
    *("minItems", "maxItems", "minLength", "maxLength", "pattern", "format", "multipleOf"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
# What says nothing about the value.
_NOTES = {
    *("$schema", "$id", "id", "$anchor", "$comment", "title", "description", "default"),
    *("example", "examples", "deprecated", "readOnly", "writeOnly", "nullable"),
    *("contentEncoding", "contentMediaType", "discriminator", "xml", "externalDocs"),
}
# A blank after commas and colons, as models have seen it most, and none elsewhere: where any number
# is allowed, small models write blanks without end.
JSON_FORM = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# Whatever the schema's own x-guidance says. No \\uXXXX: a name written so would escape its schema.
JSON_RULES = {"lenient": False, "coerce_one_of": False, "json_allowed_escapes": 'nrbtf\\"'}
_KNOWN = _ONE | _LISTS | _NAMED | _HELD | _NOTES


def schema_text(schema: Mapping[str, Any] | bool | str) -> str:
    """The schema as JSON, closed and strict. RequestError when it is none, or cannot be held."""
    try:
        value = json.loads(schema) if isinstance(schema, str) else schema
        text = json.dumps(value, allow_nan=False)
        value = json.loads(text)  # our own, to be changed
    except (ValueError, TypeError, RecursionError) as error:
        raise RequestError(f"json_schema is no JSON: {error}", "json_schema") from None
    if value is True:
        return "{}"
    if not isinstance(value, dict):
        raise RequestError(
            f"json_schema is {text[:40]}: an object (or true) is expected", "json_schema"
        )
    schemas = list(_schemas(value))
    for where, inner in schemas:
        unknown = next((k for k in inner if k not in _KNOWN and not k.startswith("x-")), None)
        if unknown is not None:
            raise RequestError(
                f"json_schema: keyword {unknown!r} at {where or '/'} is not supported",
                "json_schema",
            )
    close_objects(value, _NOTES)
    make_strict(schemas)
    return json.dumps(value, ensure_ascii=False)


def embedded(schema: Mapping[str, Any]) -> str:
    """The schema made strict, as a part of a Lark grammar. Errors are those of schema_text."""
    strict = json.loads(schema_text(schema))
    return f"%json {json.dumps({**strict, 'x-guidance': {**JSON_FORM, **JSON_RULES}})}"


def _schemas(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in it that is an object, with its place."""
    waiting: list[tuple[str, Any]] = [("", schema)]
    while waiting:
        where, inner = waiting.pop()
        if isinstance(inner, dict):
            yield where, inner
            for key, value in inner.items():
                waiting += _below(f"{where}/{key}", key, value)


def _below(where: str, key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The schemas that a keyword's value holds, with their places."""
    if key in _NAMED and isinstance(value, dict):
        yield from ((f"{where}/{name}", inner) for name, inner in value.items())
    elif key in _LISTS and isinstance(value, list):
        yield from ((f"{where}/{number}", inner) for number, inner in enumerate(value))
    elif key in _ONE:
        yield where, value
