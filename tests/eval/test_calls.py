"""What counts as a call or as JSON that can be read, and as the right one."""

import json
from typing import Any

import pytest

from edgellm.cli import eval_tasks
from edgellm.errors import RequestError
from edgellm.eval.calls import read_tasks, tool_calls
from edgellm.types import Completion, Timings, ToolCall, Usage

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
        },
    },
}


def with_parameters(schema: Any) -> dict[str, Any]:
    return {"function": {"name": "add", "parameters": schema}}


CALL_TASK = {"prompt": "p", "tools": [TOOL], "expect": {"name": "add", "arguments": {"a": 1}}}
JSON_TASK = {"prompt": "p", "schema": {"type": "array", "minItems": 2}}


class Answers:
    """A model that gives one answer to everything."""

    def __init__(self, text: str = "", calls: list[tuple[str, str]] | None = None) -> None:
        found = tuple(ToolCall("1", *call) for call in calls or [])
        self.answer = Completion(
            text, (), "stop", None, Usage(1, 1, 0), Timings(0, 0, 0), tool_calls=found
        )

    def chat(self, *_: Any) -> Completion:
        return self.answer


@pytest.mark.parametrize(
    ("calls", "valid", "right"),
    [
        ([], 0, 0),
        ([("add", '{"a": 1}')], 1, 1),
        ([("add", '{"a": 2}')], 1, 0),
        ([("add", '{"a": "1"}')], 0, 0),
        ([("add", "{}")], 0, 0),
        ([("add", "{")], 0, 0),
        ([("sub", '{"a": 1}')], 0, 0),
        ([("add", '{"a": 1}'), ("sub", "{}")], 0, 0),
    ],
)
def test_calls(calls: list[tuple[str, str]], valid: int, right: int) -> None:
    score = tool_calls(Answers(calls=calls), read_tasks([json.dumps(CALL_TASK)], "f"))  # type: ignore[arg-type]
    assert (score.valid, score.right, score.tasks) == (valid, right, 1)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("[1, 2]", 1),
        ("```json\n[1, 2]\n```", 1),
        ("[1]", 0),
        ("Sure! [1, 2]", 0),
        ("", 0),
        ("[" * 100_000, 0),
    ],
)
def test_json(text: str, valid: int) -> None:
    seen: list[Any] = []
    tasks = read_tasks([json.dumps(JSON_TASK)] * 2, "f")
    score = tool_calls(Answers(text), tasks, lambda *done: seen.append(done))  # type: ignore[arg-type]
    assert score.valid == score.right == valid and seen[-1] == (2, 2, valid)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({}, "no task"),
        ({"prompt": "p"}, "no task"),
        ({"prompt": "p", "tools": [{}]}, "no task"),
        ({"prompt": "p", "schema": {"type": "nothing"}}, "no JSON schema"),
        ({"prompt": "p", "schema": None}, "no JSON schema"),
        ({"prompt": "p", "tools": 3}, "no task"),
        ({"prompt": "p", "tools": [{"function": {"parameters": {}}}]}, ".*has no name"),
        ({"prompt": "p", "tools": [with_parameters({"$ref": "#/x"})]}, ".*where '/x' refers to"),
        ({"prompt": "p", "schema": {"items": {"$ref": "http://h/x"}}}, ".*http://h/x"),
        ([], "no task"),
    ],
)
def test_what_is_no_task_is_named(record: Any, said: str) -> None:
    with pytest.raises(RequestError, match=f"f, line 1: {said}"):
        read_tasks([json.dumps(record)], "f")


def test_our_own_tasks_are_good() -> None:
    tasks = read_tasks(eval_tasks.lines(None, eval_tasks.CALLS), "own")
    assert {task.schema is None for task in tasks} == {True, False}
    for task in tasks:
        assert task.name is None or task.name in (task.tools.functions or ())


def test_a_function_without_parameters_takes_any() -> None:
    tasks = read_tasks([json.dumps({"prompt": "p", "tools": [{"function": {"name": "go"}}]})], "f")
    assert tool_calls(Answers(calls=[("go", "{}")]), tasks).valid == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"$dynamicRef": "#x"}])
def test_a_schema_without_end_is_named(schema: Any) -> None:
    tasks = read_tasks([json.dumps({"prompt": "p", "schema": schema})], "f")
    with pytest.raises(RequestError, match="task 1 has a schema whose references lead nowhere"):
        tool_calls(Answers("1"), tasks)  # type: ignore[arg-type]
