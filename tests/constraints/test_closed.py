"""Objects that list their properties have no others, where one schema has the only say."""

import json
from contextlib import suppress
from typing import Any

import pytest

from edgellm.constraints import schema_text
from edgellm.errors import RequestError
from tests.constraints.following import matches
from tests.odd_values import each_changed

NAMED = {"type": "object", "properties": {"a": {"type": "integer"}}}
OTHER = {"properties": {"b": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "listed", "unlisted"),
    [
        (NAMED, '{"a": 1}', '{"a": 1, "x": 2}'),
        ({"properties": {"o": NAMED}}, '{"o": {"a": 1}}', '{"o": {"x": 1}}'),
        ({"type": "array", "items": NAMED}, '[{"a": 1}]', '[{"x": 1}]'),
        ({"anyOf": [NAMED, {"type": "null"}]}, '{"a": 1}', '{"x": 1}'),
        ({"$ref": "#/$defs/a~1b", "title": "t", "$defs": {"a/b": NAMED}}, '{"a": 1}', '{"x": 1}'),
        ({"allOf": [{"$ref": "#/$defs/p"}], "$defs": {"p": NAMED}}, '{"a": 1}', '{"x": 1}'),
        ({"type": "object", "properties": {}}, "{}", '{"x": 1}'),
    ],
)
def test_what_is_not_listed_cannot_come(schema: dict[str, Any], listed: str, unlisted: str) -> None:
    assert matches(listed, json_schema=schema)
    assert not matches(unlisted, json_schema=schema)


@pytest.mark.parametrize(
    ("schema", "unlisted"),
    [
        ({"type": "object"}, '{"x": 1}'),
        ({**NAMED, "additionalProperties": True}, '{"x": 1}'),
        ({**NAMED, "additionalProperties": {"type": "null"}}, '{"x": null}'),
        ({**NAMED, "patternProperties": {"^y": True}}, '{"y": 1}'),
        ({**NAMED, "required": ["x"]}, '{"x": 1}'),
        ({**NAMED, "required": ["a"], "minProperties": 2}, '{"a": 1, "x": 1}'),
        ({"allOf": [NAMED, OTHER]}, '{"a": 1, "b": 2}'),
        ({**NAMED, "anyOf": [OTHER]}, '{"a": 1, "b": 2}'),
        ({**OTHER, "$ref": "#/$defs/p", "$defs": {"p": NAMED}}, '{"b": 2, "a": 1}'),
    ],
)
def test_where_others_may_come_they_can(schema: dict[str, Any], unlisted: str) -> None:
    assert matches(unlisted, json_schema=schema)


def test_a_schema_that_is_also_one_of_several_stays_open() -> None:
    """Closed it would forbid what the others list."""
    both = {"allOf": [{"$ref": "#/$defs/p"}, OTHER]}
    schema = {"properties": {"o": {"$ref": "#/$defs/p"}, "q": both}, "$defs": {"p": NAMED}}
    assert matches('{"q": {"a": 1, "b": 2}}', json_schema=schema)
    assert json.loads(schema_text(schema))["$defs"]["p"] == NAMED
    assert not matches('{"r": 1}', json_schema=schema)


def test_a_schema_may_hold_itself() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    assert matches('{"left": {"right": {}}}', json_schema=tree)
    assert not matches('{"left": {"middle": {}}}', json_schema=tree)


def test_no_odd_value_is_an_error_of_our_own() -> None:
    needed = {**NAMED, "required": ["a"]}
    inner = {**needed, "patternProperties": {"^y": NAMED}, "minProperties": 1}
    both = {"anyOf": [inner, NAMED], "oneOf": [NAMED], "allOf": [{"$ref": "#/$defs/p"}]}
    whole = {"properties": {"o": inner, "q": both}, "items": [needed], "$defs": {"p": NAMED}}
    for _, _, schema in each_changed(whole, share=1):
        with suppress(RequestError):
            json.loads(schema_text(schema))
