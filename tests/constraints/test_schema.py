"""Each keyword of JSON Schema is held, says nothing about the value, or is refused."""

import json
import random
import time
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jsonschema_specifications import REGISTRY

from edgellm.constraints import embedded, schema_text
from edgellm.errors import RequestError
from tests.constraints.following import compiled, matches, refused
from tests.mock_model import EOG, VOCAB_SIZE
from tests.waiting import PATIENCE

INTEGER, STRING = {"type": "integer"}, {"type": "string"}
DRAFTS = ("draft-07", "draft/2019-09", "draft/2020-12")

# A schema with the keyword, texts of it, and texts that only the keyword forbids.
HELD: dict[str, tuple[Any, list[str], list[str]]] = {
    "type": ({"type": ["boolean", "null"]}, ["true", "null"], ["1", '"a"']),
    "enum": ({"enum": [1, "a", [2]]}, ["1", '"a"', "[2]"], ["2", '"b"']),
    "const": ({"const": {"a": 1}}, ['{"a": 1}'], ["{}", '{"a": 2}']),
    "$ref": ({"$ref": "#/$defs/p", "$defs": {"p": INTEGER}}, ["1"], ['"a"']),
    "$defs": ({"$ref": "#/$defs/p", "$defs": {"p": INTEGER}}, ["1"], ['"a"']),
    "definitions": ({"$ref": "#/definitions/p", "definitions": {"p": INTEGER}}, ["1"], ['"a"']),
    "$anchor": ({"$ref": "#a", "$defs": {"p": {"$anchor": "a", **INTEGER}}}, ["1"], ['"a"']),
    "allOf": ({"allOf": [INTEGER, {"minimum": 3}]}, ["3"], ["2", '"a"']),
    "anyOf": ({"anyOf": [INTEGER, STRING]}, ["3", '"a"'], ["null", "1.5"]),
    "oneOf": ({"oneOf": [INTEGER, STRING]}, ["3", '"a"'], ["null", "1.5"]),
    "multipleOf": ({"type": "number", "multipleOf": 0.25}, ["0.75", "-2"], ["0.3"]),
    "minimum": ({"type": "number", "minimum": 2.5}, ["2.5", "10"], ["2.4", "-3"]),
    "maximum": ({"type": "number", "maximum": 2.5}, ["2.5", "-10"], ["2.6", "10"]),
    "exclusiveMinimum": ({**INTEGER, "exclusiveMinimum": 2}, ["3"], ["2"]),
    "exclusiveMaximum": ({**INTEGER, "exclusiveMaximum": 2}, ["1"], ["2"]),
    "minLength": ({**STRING, "minLength": 2}, ['"ab"', '"é😀"'], ['"a"', '"😀"']),
    "maxLength": ({**STRING, "maxLength": 1}, ['""', '"😀"', '"\\n"'], ['"ab"']),
    "pattern": ({**STRING, "pattern": "^a|b$"}, ['"ax"', '"xb"'], ['"xa"']),
    "format": ({**STRING, "format": "ipv4"}, ['"1.2.3.4"'], ['"1.2.3"', '"1.2.3.256"']),
    "items": ({"type": "array", "items": INTEGER}, ["[]", "[1, 2]"], ['["a"]', '[1, "a"]']),
    "prefixItems": ({"type": "array", "prefixItems": [INTEGER]}, ['[1, "a"]'], ['["a"]']),
    "additionalItems": (
        {"type": "array", "items": [INTEGER], "additionalItems": False},
        ["[]", "[1]"],
        ['["a"]', "[1, 2]"],
    ),
    "minItems": ({"type": "array", "minItems": 1}, ["[1]"], ["[]"]),
    "maxItems": ({"type": "array", "maxItems": 1}, ["[]", "[1]"], ["[1, 2]"]),
    "properties": (
        {"type": "object", "properties": {"a": INTEGER}},
        ["{}", '{"a": 1}'],
        ['{"b": "x"}', '{"a": "x"}', '{"a": 1, "a": "x"}', '{"\\u0061": "x"}'],
    ),
    "required": ({"type": "object", "required": ["a"]}, ['{"a": 1}'], ["{}"]),
    "additionalProperties": (
        {"type": "object", "properties": {"a": INTEGER}, "additionalProperties": False},
        ["{}", '{"a": 1}'],
        ['{"b": 1}'],
    ),
    "patternProperties": (
        {"type": "object", "patternProperties": {"^x": INTEGER}},
        ['{"x1": 1}', '{"y": "a"}'],
        ['{"x1": "a"}', '{"\\u0078": "a"}'],
    ),
    "minProperties": ({"type": "object", "minProperties": 1}, ['{"a": 1}'], ["{}"]),
    "maxProperties": ({"type": "object", "maxProperties": 1}, ["{}"], ['{"a": 1, "b": 2}']),
}
REFUSED: dict[str, Any] = {
    "not": {},
    "if": {},
    "then": {},
    "else": {},
    "contains": {},
    "minContains": 1,
    "maxContains": 1,
    "uniqueItems": True,
    "propertyNames": {},
    "dependencies": {},
    "dependentRequired": {},
    "dependentSchemas": {},
    "unevaluatedItems": False,
    "unevaluatedProperties": False,
    "contentSchema": {},
    "$dynamicRef": "#a",
    "$dynamicAnchor": "a",
    "$recursiveRef": "#",
    "$recursiveAnchor": True,
    "$vocabulary": {},
}
NOTES: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "http://example.org/x",
    "$comment": "x",
    "title": "x",
    "description": "x",
    "default": 1,
    "examples": [1],
    "readOnly": True,
    "writeOnly": True,
    "deprecated": True,
    "contentEncoding": "base64",
    "contentMediaType": "text/plain",
}


def keywords(draft: str) -> set[str]:
    """All that the draft's own schemas know."""
    found = set()
    for address in REGISTRY:
        if f"/{draft}/" in address:
            found |= REGISTRY.contents(address).get("properties", {}).keys()
    return found


@pytest.mark.parametrize("draft", DRAFTS)
def test_each_keyword_of_the_drafts_is_in_one_table(draft: str) -> None:
    assert len(keywords(draft)) > 40
    assert keywords(draft) <= HELD.keys() | REFUSED.keys() | NOTES.keys()
    assert not HELD.keys() & REFUSED.keys() and not HELD.keys() & NOTES.keys()


@pytest.mark.parametrize("keyword", HELD)
def test_what_is_known_is_held(keyword: str) -> None:
    """By itself, and within a grammar such as those of tool calls."""
    schema, yes, no = HELD[keyword]
    assert keyword in json.dumps(schema)
    for text in yes:
        assert matches(text, json_schema=schema), text
        assert matches(f"<{text}>", lark=within(schema)), text
    for text in no:
        assert not matches(text, json_schema=schema), text
        assert not matches(f"<{text}>", lark=within(schema)), text


def within(schema: dict[str, Any]) -> str:
    return f'start: "<" inner ">"\ninner: {embedded(schema)}'


@pytest.mark.parametrize("keyword", REFUSED)
def test_what_is_not_held_is_refused_wherever_it_stands(keyword: str) -> None:
    bad = {keyword: REFUSED[keyword]}
    inside = [{"items": bad}, {"anyOf": [INTEGER, bad]}, {"$defs": {"p": bad}, "$ref": "#/$defs/p"}]
    for schema in (bad, *inside):
        assert f"keyword {keyword!r} at /" in refused(json_schema=schema)


@pytest.mark.parametrize("keyword", NOTES)
def test_what_says_nothing_changes_nothing(keyword: str) -> None:
    schema = {keyword: NOTES[keyword], "maximum": 5, **INTEGER}
    assert matches("5", json_schema=schema) and not matches("6", json_schema=schema)


@pytest.mark.parametrize(
    ("schema", "yes", "no"),
    [
        # llguidance lets the bound in where the other is less than one away.
        ({"exclusiveMinimum": 0, "maximum": 0.5}, ["0.25", "0.5"], ["0", "0.0"]),
        ({"exclusiveMinimum": 2, "minimum": 2.25, "maximum": 2.5}, ["2.25"], ["2", "2.1"]),
        ({"exclusiveMaximum": 0, "minimum": -0.5}, ["-0.25"], ["0", "-0", "-0.0"]),
        ({"exclusiveMaximum": -1, "exclusiveMinimum": -1.5}, ["-1.25"], ["-1"]),
        ({"exclusiveMinimum": True, "minimum": 2, "maximum": 2.5}, ["2.25"], ["2"]),
        ({"exclusiveMinimum": 0, "maximum": 1}, ["0.0000001", "1"], ["0"]),
        ({"minimum": 0, "maximum": 2**63 - 1}, [str(2**62)], ["-1"]),
    ],
)
def test_bounds_hold_exactly(schema: dict[str, Any], yes: list[str], no: list[str]) -> None:
    kind = "integer" if schema.get("maximum") == 2**63 - 1 else "number"
    for text in yes:
        assert matches(text, json_schema={"type": kind, **schema}), text
        assert matches(f"<{text}>", lark=within({"type": kind, **schema})), text
    for text in no:
        assert not matches(text, json_schema={"type": kind, **schema}), text
        assert not matches(f"<{text}>", lark=within({"type": kind, **schema})), text


@pytest.mark.parametrize(
    ("form", "yes", "no"),
    [
        ("date", ["2024-02-29", "2000-02-29", "1999-12-31"], ["2023-02-29", "1900-02-29"]),
        ("time", ["23:59:59Z", "01:02:03.5+02:00"], ["23:59:60Z", "24:00:00Z", "01:02:03"]),
        ("date-time", ["2024-02-29T01:02:03Z"], ["2023-02-29T01:02:03Z", "2024-02-29"]),
    ],
)
def test_dates_are_those_of_the_calendar(form: str, yes: list[str], no: list[str]) -> None:
    schema = {"type": "string", "format": form}
    for text in yes:
        assert matches(f'"{text}"', json_schema=schema), text
    for text in no:
        assert not matches(f'"{text}"', json_schema=schema), text


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"minimum": 2**53 + 1}, "minimum 9007199254740993, beyond 2^53, at /"),
        ({"exclusiveMaximum": 2**63 - 1}, "beyond 2^53"),
        ({"items": {"maximum": -1e30}}, "maximum -1e+30, beyond 2^53, at /items"),
        ({"multipleOf": 4294967291}, "multipleOf 4294967291 at /"),
        ({"multipleOf": 0}, "multipleOf 0 at /"),
        ({"multipleOf": 1e-9}, "multipleOf 1e-09 at /"),
        ({"allOf": [{"multipleOf": 65537}, {"multipleOf": 65539}]}, "beside others"),
        ({"type": "object", "minProperties": 2}, "minProperties 2 with 0 required names at /"),
        ({"x-guidance": {"coerce_one_of": True}, "oneOf": [INTEGER, {"minimum": 3}]}, "oneOf"),
        ({"const": "\x01"}, "no text"),
    ],
)
def test_what_could_be_held_only_loosely_is_refused(schema: dict[str, Any], said: str) -> None:
    assert said in refused(json_schema=schema)


def test_multiples_that_meet_are_held() -> None:
    schema = {"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6}]}
    assert matches("12", json_schema=schema) and not matches("18", json_schema=schema)


def test_multiples_that_never_meet_are_held() -> None:
    schema = {"properties": {"a": {"multipleOf": 0.01}, "b": {"multipleOf": 100000}}}
    assert matches('{"a": 1.25, "b": 300000}', json_schema=schema)
    assert not matches('{"a": 1.251}', json_schema=schema)


def test_a_schema_of_many_parts_takes_no_longer_than_they_need() -> None:
    parts = [
        {"exclusiveMinimum": n, "maximum": n + 0.5, "multipleOf": n + 1} for n in range(20_000)
    ]
    began = time.monotonic()
    assert "beside others" in refused(json_schema={"anyOf": parts, "allOf": [{}, {}]})
    schema_text({"$defs": {str(n): {**part, "multipleOf": 1} for n, part in enumerate(parts)}})
    assert time.monotonic() - began < PATIENCE


def test_the_caller_keeps_the_schema_as_it_was() -> None:
    schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5, "format": "date"}
    before = json.dumps(schema)
    compiled(json_schema=schema)
    assert json.dumps(schema) == before


PATTERNS = ("^a", "b$", "^[a-c]{1,4}$", "x", r"^\d+$", "^(a|b)c?$")
FORMATS = ("date", "time", "date-time", "ipv4", "ipv6", "uuid", "email", "uri", "duration")
VALUES = (1, 2, "a", "ab", None, True, [1], {"a": 1}, 0.5, "xyz", -3)
BOUNDS = st.sampled_from((0, 1, -1, 5, 10, 0.5, -0.5, 2.5, 100, -20))
FEW, NAMES = st.integers(0, 4), st.sampled_from(("a", "b", "x1", "z"))


def one_of_some(keywords: dict[str, st.SearchStrategy[Any]], **fixed: Any) -> Any:
    """Schemas with any of the keywords, beside fixed ones."""
    return st.fixed_dictionaries({}, optional=keywords).map(lambda s: {**fixed, **s})


LEAVES: st.SearchStrategy[Any] = st.one_of(
    one_of_some(
        {
            **dict.fromkeys(("minimum", "exclusiveMinimum", "maximum"), BOUNDS),
            "multipleOf": st.sampled_from((1, 2, 5, 0.5, 0.25)),
        },
        type="number",
    ),
    one_of_some({"minimum": BOUNDS, "exclusiveMaximum": BOUNDS}, type="integer"),
    one_of_some(
        {"minLength": FEW, "maxLength": FEW, "pattern": st.sampled_from(PATTERNS)}, type="string"
    ),
    st.sampled_from(FORMATS).map(lambda form: {"type": "string", "format": form}),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(lambda some: {"enum": some}),
    st.sampled_from(VALUES).map(lambda value: {"const": value}),
    st.sampled_from(({}, True, {"type": ["string", "null"]}, {"$ref": "#/$defs/p"})),
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = {
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": inner | st.booleans(),
        "patternProperties": st.dictionaries(st.sampled_from(("^x", "^[ab]$")), inner, max_size=1),
        "minProperties": FEW,
        "maxProperties": FEW,
    }
    arrays = {
        "items": inner | st.booleans(),
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "minItems": FEW,
        "maxItems": FEW,
    }
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        one_of_some(objects, type="object"),
        one_of_some(arrays, type="array"),
        one_of_some({"anyOf": several, "maxLength": FEW, "minimum": BOUNDS}),
        one_of_some({"allOf": several, "oneOf": several}),
        one_of_some({**objects, **arrays}),
    )


SCHEMAS = st.recursive(LEAVES, larger, max_leaves=5).filter(lambda s: isinstance(s, dict))


def walked(schema: dict[str, Any], seed: int, most: int = 200) -> str | None:
    """A random text of a schema; None when it did not end."""
    constraint, rng, text = compiled(json_schema=schema), random.Random(seed), bytearray()
    while len(text) < most:
        if constraint.is_complete:
            return text.decode()
        allowed = constraint.allowed(VOCAB_SIZE, most - len(text))
        if allowed[EOG] and rng.random() < 0.5:
            return text.decode()
        printed = np.flatnonzero(allowed[:127])
        byte = rng.choice(printed.tolist() or np.flatnonzero(allowed[:256]).tolist() or [EOG])
        if byte == EOG:
            return text.decode()
        constraint.accept(byte)
        text.append(byte)
    return None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted([*HELD, *NOTES])), JSON, min_size=1, max_size=3))
def test_no_value_of_a_keyword_does_harm(schema: dict[str, Any]) -> None:
    """Whatever it is, for what holds a number, a list or schemas."""
    try:
        compiled(json_schema=schema)
    except RequestError as error:
        assert error.field == "json_schema"


@settings(max_examples=200, deadline=None)
@given(SCHEMAS, LEAVES, st.integers(0, 2**32))
def test_what_is_taken_on_is_held(schema: dict[str, Any], part: Any, seed: int) -> None:
    """Whatever a schema that is not refused lets through is valid for another judge."""
    schema = {**schema, "$defs": {"p": {"type": "integer"} if "$ref" in str(part) else part}}
    try:
        text = walked(schema, seed)
    except RequestError as error:
        assert error.field == "json_schema"
        return
    if text is not None:
        judge = jsonschema.Draft202012Validator
        judge(schema, format_checker=judge.FORMAT_CHECKER).validate(json.loads(text))
