"""What a request says of functions, and values that are written bare."""

from typing import Any

import pytest

from edgellm.dialects import read_tools
from edgellm.dialects.functions import typed
from edgellm.errors import RequestError


def tool(name: Any = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


@pytest.mark.parametrize(
    ("text", "schema", "written"),
    [
        ("1", {"type": "integer"}, "1"),
        ("1.5", {"type": "integer"}, '"1.5"'),
        ("true", {"type": "number"}, '"true"'),
        ("True", {"type": "boolean"}, "true"),
        ("NaN", {"type": "number"}, '"NaN"'),
        ("1", {"type": "string"}, '"1"'),
        ("é", {"type": "string"}, '"é"'),
        ("é", {"type": "integer"}, '"é"'),
        ("['é']", {"type": "array"}, '["é"]'),
        ("1", {"type": ["string", "integer"]}, "1"),
        ("2", {"enum": [1, 2]}, "2"),
        ("1", {"const": "1"}, '"1"'),
        ("5", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "5"),
        ("5", {"oneOf": [{"type": "string"}]}, '"5"'),
        ("5", {"anyOf": [{"type": "string"}, {}]}, "5"),
        ("5", {"anyOf": 5}, "5"),
        ("[1]", {}, "[1]"),
        ("True", {}, '"True"'),
    ],
)
def test_bare_values_are_of_their_schemas_type(text: str, schema: Any, written: str) -> None:
    assert typed(text, schema) == written


def test_answers_are_held_where_calls_must_have_their_form() -> None:
    plain, strict = tool("plain"), tool("strict", strict=True)
    assert not read_tools([plain]).is_held
    assert read_tools([plain, strict]).is_held
    assert read_tools([plain], "required").is_held
    assert read_tools([plain], is_parallel=False).is_held
    assert not read_tools([strict], "none").is_held
    chosen = {"type": "allowed_tools", "tools": [tool("plain")]}
    assert not read_tools([plain, strict], chosen).is_held


@pytest.mark.parametrize(
    ("tools", "choice", "said"),
    [
        ([5], "auto", "no function"),
        ([tool("")], "auto", "no name"),
        ([tool(5)], "auto", "no name"),
        ([tool(parameters=[])], "auto", "no JSON schema"),
        ([tool(), tool()], "auto", "there twice"),
        ([], "required", "there are no tools"),
        ([tool()], "sometimes", "a function is expected"),
        ([tool()], {"type": "function"}, "names no function"),
        ([tool()], {"name": "g"}, "no tool has the name"),
        ([tool()], {"type": "allowed_tools", "mode": "required", "tools": 5}, "there are no tools"),
    ],
)
def test_what_is_no_tool_or_choice_is_refused(tools: Any, choice: Any, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        read_tools(tools, choice)
