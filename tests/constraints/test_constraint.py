"""Every kind of constraint: what may come next, what is forced, what is refused and how quickly."""

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from edgellm.constraints import compile_constraint
from edgellm.errors import RequestError
from edgellm.sampling_params import SamplingParams
from tests.constraints.following import compiled, matches, refused
from tests.mock_model import EOG, VOCAB_SIZE
from tests.waiting import PATIENCE

POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer", "minimum": 0, "maximum": 99},
        "on": {"type": "boolean"},
    },
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("params", "yes", "no"),
    [
        ({"regex": r"[a-c]+\d{2}"}, ["a12", "abc00"], ["12", "a1", "a123", ""]),
        ({"lark": 'start: "a"{2} b?\nb: /[x-z]/'}, ["aa", "aaz"], ["a", "aab"]),
        ({"choices": ("a", "ab", "é\n", 'q"\\')}, ["a", "ab", "é\n", 'q"\\'], ["", "b", "aba"]),
        (
            {"json_schema": POINT},
            ['{"x": 7}', '{"x": 99, "on": true}'],
            ['{"x":7}', '{"x": 100}', "{}"],
        ),
        ({"json_schema": json.dumps(POINT)}, ['{"x": 7}'], ["{}"]),
        ({"json_schema": True}, ["{}", "[1, null]", '"a"'], ["nope"]),
    ],
)
def test_what_is_allowed(params: dict[str, Any], yes: list[str], no: list[str]) -> None:
    for text in yes:
        assert matches(text, **params), text
    for text in no:
        assert not matches(text, **params), text


def test_without_a_constraint_nothing_is_made() -> None:
    def never() -> Any:
        raise AssertionError("no vocabulary is wanted")

    assert compile_constraint(SamplingParams(), never) is None


def test_tokens_outside_the_vocabulary_are_not_allowed() -> None:
    allowed = compiled(regex=".*").allowed(VOCAB_SIZE + 50)
    assert len(allowed) == VOCAB_SIZE + 50 and not allowed[VOCAB_SIZE:].any()
    assert allowed[EOG] and allowed[ord("a")]


def test_what_must_come_is_forced_and_taken() -> None:
    constraint = compiled(json_schema=POINT)
    assert bytes(constraint.forced()) == b'{"x": '
    assert constraint.forced() == []
    other = constraint.fork()
    constraint.accept(ord("5"))
    assert other.allowed(VOCAB_SIZE)[ord("5")] and not other.is_complete
    for byte in b"}":
        constraint.accept(byte)
    assert constraint.is_complete and constraint.forced() == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "array", "uniqueItems": True}, "'uniqueItems' at /"),
        ({"properties": {"a": {"not": {}}}}, "'not' at /properties/a"),
        ({"anyOf": [{}, {"minLenght": 3}]}, "'minLenght' at /anyOf/1"),
        ({"divisibleBy": 2}, "divisibleBy"),
        ({"type": "strng"}, "strng"),
        ({"type": "string", "format": "weird"}, "weird"),
        ({"$ref": "#/nowhere"}, "nowhere"),
        ({"$ref": "http://example.org/x"}, "example.org"),
        ({"enum": []}, "empty"),
        ({"type": "integer", "minimum": 3, "maximum": 1}, "minimum"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
        ({"x-guidance": {"lenient": True}, "not": {}}, "not"),
        ("{", "no JSON"),
        ("[1]", "an object"),
        (False, "false"),
        ({"a": {1, 2}}, "no JSON"),
        ({"const": float("nan")}, "no JSON"),
    ],
)
def test_what_a_schema_asks_in_vain_is_refused(schema: Any, said: str) -> None:
    assert said in refused(json_schema=schema)


def test_a_name_that_is_a_keyword_is_only_a_name() -> None:
    schema = {"type": "object", "properties": {"not": {"const": 1}}, "required": ["not"]}
    assert matches('{"not": 1}', json_schema=schema)


def nested(times: int) -> Any:
    schema: Any = {}
    for _ in range(times):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "params",
    [
        {"regex": "(" * 60000 + "a" + ")" * 60000},
        {"regex": "a(?=b)"},
        {"regex": "["},
        {"lark": "start: " + "(" * 60000 + '"a"' + ")" * 60000},
        {"lark": "start: x"},
        {"lark": "start: start"},
        {"json_schema": '{"allOf":[' * 60000 + "{}" + "]}" * 60000},
        {"json_schema": nested(20000)},
        {"grammar": "root ::= " + "(" * 60000},
    ],
)
def test_what_is_wrong_or_too_deep_is_refused_soon(params: dict[str, Any]) -> None:
    began = time.monotonic()
    assert len(refused(**params)) < 1000
    assert time.monotonic() - began < PATIENCE


@pytest.mark.parametrize("field", ["regex", "lark", "grammar", "json_schema", "choices"])
def test_texts_are_of_whole_characters_and_bounded(field: str) -> None:
    for part, said in (("\ud800", "surrogate"), ("x" * (5 << 20), "at most 4194304 are read")):
        given = {
            "lark": f'start: "{part}"',
            "grammar": f'root ::= "{part}"',
            "json_schema": {"const": part},
            "choices": ("a", part),
        }
        assert said in refused(**{field: given.get(field, part)})


@pytest.mark.parametrize(
    "params",
    [
        {"regex": "(x{0,2000}){0,2000}"},
        {"lark": 'start: a{0,2000}\na: "x"{0,2000}'},
        {"grammar": 'root ::= a{0,2000}\na ::= "x"{0,2000}'},
        {"grammar": 'root ::= (a{0,2000} | "(" root ")")\na ::= "x"{0,2000}'},
        {"json_schema": {"type": "string", "pattern": "^(x{0,2000}){0,2000}$"}},
        {"lark": 'start: start "x" | "x"'},
    ],
)
def test_what_is_large_is_followed_or_refused_in_bounded_time(params: dict[str, Any]) -> None:
    began = time.monotonic()
    try:
        constraint = compiled(**params)
        if "json_schema" in params:
            constraint.accept(ord('"'))
        for _ in range(30):
            assert constraint.allowed(VOCAB_SIZE)[ord("x")]
            constraint.accept(ord("x"))
    except RequestError as error:
        assert "items; max is" in str(error)
    assert time.monotonic() - began < PATIENCE


def test_llguidance_is_loaded_when_it_is_needed() -> None:
    program = (
        "import sys, edgellm.manager, edgellm.constraints; assert 'llguidance' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
