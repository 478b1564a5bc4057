"""Conversations that are refused, and how good ones are shaped for templates."""

from typing import Any

import pytest

from edgellm.chat_template.messages import read_traits, shape_messages, shape_tools
from edgellm.errors import RequestError

PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def shape(message: Any, source: str = PLAIN) -> dict[str, Any]:
    return shape_messages([message], read_traits(source))[0]


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        (None, "messages is null"),
        ("hi", "messages is of type str"),
        ([], "is empty"),
        (["hi"], r"messages\[0\] is of type str"),
        ([{"content": "hi"}], "has the role None"),
        ([{"role": "asistant", "content": "hi"}], "has the role 'asistant'.*assistant"),
        ([{"role": ["user"], "content": "hi"}], "has the role"),
        ([{"role": "user"}], "has no content"),
        ([{"role": "user", "content": None}], "has no content"),
        ([{"role": "user", "content": 5}], "content is of type int"),
        ([{"role": "user", "content": {"type": "text"}}], "content is of type dict"),
        ([{"role": "user", "content": ["hi"]}], r"content\[0\] is of type str"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "only text"),
        ([{"role": "user", "content": [{"type": "text"}]}], "null for its text"),
        ([{"role": "assistant", "tool_calls": {}}], "tool_calls is of type dict"),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "no function with a name"),
        ([{"role": "assistant", "tool_calls": ["f"]}], "no function with a name"),
        ([{"role": "assistant", "tool_calls": [{**CALL, "id": []}]}], "id of type list"),
        ([{"role": "tool", "content": "r", "tool_call_id": {}}], "tool_call_id of type dict"),
    ],
)
def test_bad_shapes_are_named(messages: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says) as caught:
        shape_messages(messages, read_traits(PLAIN))
    assert caught.value.field == "messages"


def test_parts_become_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert shape({"role": "user", "content": parts})["content"] == "a\nb"


def test_text_becomes_a_part_where_only_parts_are_read() -> None:
    source = (
        "{% for m in messages %}{% for p in m['content'] %}{{ p.text }}{% endfor %}{% endfor %}"
    )
    part = [{"type": "text", "text": "hi"}]
    assert shape({"role": "user", "content": "hi"}, source)["content"] == part
    both = source + "{% if m.content is string %}{% endif %}"
    assert shape({"role": "user", "content": "hi"}, both)["content"] == "hi"


def test_null_content_stays_where_the_template_tests_for_it() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert shape(message)["content"] == ""
    for test in ("m['content'] is none", "m.content is not none"):
        assert shape(message, f"{{% if {test} %}}{{% endif %}}")["content"] is None
    other = "{% if m.reasoning_content is not none %}{% endif %}"
    assert shape(message, other)["content"] == ""


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        ("{{ c.arguments | tojson }}", {"a": 1}),
        ("{% for k, v in c.arguments | items %}{% endfor %}", {"a": 1}),
        ("{{ c.function | tojson }}", {"a": 1}),
        ("{{ c.arguments if c.arguments is string else c.arguments | tojson }}", {"a": 1}),
        (
            "{% set a = c['arguments'] %}{% for k in a.items() %}{% endfor %}{{ '(' + arguments }}",
            {"a": 1},
        ),
        ("{{ 'x' + c['function']['arguments'] + 'y' }}", '{"a": 1}'),
        ("{% set s = 'x' + c.arguments %}", '{"a": 1}'),
        ("{{ '{' ~ (c.arguments if c.arguments is defined else '') ~ '}' }}", '{"a": 1}'),
    ],
)
def test_arguments_are_what_the_template_takes(source: str, arguments: Any) -> None:
    shaped = shape({"role": "assistant", "tool_calls": [CALL]}, source)
    assert shaped["tool_calls"][0]["function"]["arguments"] == arguments
    as_object = {**CALL, "function": {"name": "f", "arguments": {"a": 1}}}
    shaped = shape({"role": "assistant", "tool_calls": [as_object]}, source)
    assert shaped["tool_calls"][0]["function"]["arguments"] == arguments


def test_arguments_that_are_no_object_stay_text() -> None:
    for text in ("{broken", "5", ""):
        call = {"function": {"name": "f", "arguments": text}}
        shaped = shape({"role": "assistant", "tool_calls": [call]})
        assert shaped["tool_calls"][0]["function"]["arguments"] == text


def test_developer_is_system_to_templates_that_do_not_know_it() -> None:
    message = {"role": "developer", "content": "x"}
    assert shape(message)["role"] == "system"
    assert shape(message, "{% if m.role == 'developer' %}{% endif %}")["role"] == "developer"


def test_a_template_may_know_roles_of_its_own() -> None:
    message = {"role": "ipython", "content": "x"}
    assert shape(message, "{% if m['role'] == \"ipython\" %}{% endif %}")["role"] == "ipython"
    with pytest.raises(RequestError):
        shape(message)


def test_the_callers_messages_are_left_alone() -> None:
    message = {"role": "developer", "content": [{"type": "text", "text": "a"}], "name": "n"}
    before = repr(message)
    assert shape(message)["name"] == "n"
    assert repr(message) == before


def test_tools() -> None:
    assert shape_tools(None) is None
    assert shape_tools([]) is None
    assert shape_tools([{"type": "function"}]) == [{"type": "function"}]
    refused: list[Any] = [{}, "f", ["f"], 5]
    for bad in refused:
        with pytest.raises(RequestError) as caught:
            shape_tools(bad)
        assert caught.value.field == "tools"
