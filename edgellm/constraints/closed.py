"""Objects that list their properties have no others, unless their schema speaks of others.

JSON Schema lets any others in, and small models then write names without end. llama.cpp, Ollama and
the strict mode of OpenAI read schemas so too. What is left is valid for the schema as it was, so
that objects on which several schemas have a say stay open: one of them may list what another does
not. Knows nothing of tokens.
"""

from collections.abc import Iterator, Set
from typing import Any

# What lets in, forbids or counts names that are not listed.
_OTHERS = {"additionalProperties", "patternProperties", "minProperties"}
_COMBINING = {"allOf", "anyOf", "oneOf", "$ref"}
_NAMELESS = {"type", "$defs", "definitions"}  # no say on names


def close_objects(whole: dict[str, Any], notes: Set[str]) -> None:
    """Changes all schemas of a document in place. notes: keywords without a say on any value."""
    alone: dict[int, dict[str, Any]] = {}
    shared: set[int] = set()
    seen: set[tuple[int, bool]] = set()
    waiting: list[tuple[Any, bool]] = [(whole, False)]
    while waiting:
        schema, is_shared = waiting.pop()
        if not isinstance(schema, dict) or (id(schema), is_shared) in seen:
            continue
        seen.add((id(schema), is_shared))
        mixes = not _COMBINING.isdisjoint(schema) and not _only_refers(schema, notes)
        if is_shared or mixes:
            shared.add(id(schema))
        else:
            alone[id(schema)] = schema
        waiting += ((part, is_shared or mixes) for part in _same_value(whole, schema))
        inner_shared = is_shared or mixes or "patternProperties" in schema
        waiting += ((part, inner_shared) for part in _inner_values(schema))
    for key, schema in alone.items():
        if key not in shared and _lists_all(schema):
            schema["additionalProperties"] = False


def _lists_all(schema: dict[str, Any]) -> bool:
    """Whether an object can be one of its listed properties alone."""
    listed, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(listed, dict) or not isinstance(required, list):
        return False
    names = [*listed]  # a list: what is required may be no text
    return _OTHERS.isdisjoint(schema) and all(name in names for name in required)


def _only_refers(schema: dict[str, Any], notes: Set[str]) -> bool:
    """Whether one schema elsewhere has the only say: any of several, or a single one."""
    combining = _COMBINING & schema.keys()
    if len(combining) != 1 or not schema.keys() <= combining | _NAMELESS | notes:
        return False
    (key,) = combining
    return key in ("anyOf", "$ref") or (isinstance(schema[key], list) and len(schema[key]) == 1)


def _same_value(whole: dict[str, Any], schema: dict[str, Any]) -> Iterator[Any]:
    """The other schemas that have a say on a schema's own value."""
    for key in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(key)
        yield from parts if isinstance(parts, list) else ()
    if "$ref" in schema:
        yield _referred(whole, schema["$ref"])


def _inner_values(schema: dict[str, Any]) -> Iterator[Any]:
    """The schemas of what is in a schema's value."""
    for key in ("properties", "patternProperties"):
        named = schema.get(key)
        yield from named.values() if isinstance(named, dict) else ()
    for key in ("items", "prefixItems", "additionalItems", "additionalProperties"):
        parts = schema.get(key)
        yield from parts if isinstance(parts, list) else (parts,)


def _referred(whole: dict[str, Any], reference: Any) -> Any:
    """What a JSON pointer names; None for references of other kinds, whose objects stay open."""
    found: Any = whole
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    for part in filter(None, reference[1:].split("/")):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found
