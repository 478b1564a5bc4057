"""Whether a model writes what programs can read: tool calls, and JSON of a given schema.

Tasks are JSON lines: "messages" (or "prompt", one of the user), and either "tools" as in OpenAI's
API with "expect" {"name", "arguments"}, of which the arguments may be left out, or "schema". No
answer is held to a form: what is measured is what the model does by itself.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from edgellm.errors import RequestError
from edgellm.llm import Model
from edgellm.types import Completion, Message, SamplingParams

MAX_TOKENS = 128


@dataclass(frozen=True)
class Task:
    """messages: of the chat. tools: those on offer. name, arguments: of the call expected, None
    where any will do. schema: what an answer in JSON must meet, of a task without tools."""

    messages: tuple[Message, ...]
    tools: tuple[Message, ...] = ()
    name: str | None = None
    arguments: Message | None = None
    schema: Message | None = None


@dataclass(frozen=True)
class CallScore:
    """Shares of tasks: valid is one that can be read and meets its schema, right is one that is
    also what was expected (the same as valid for tasks that expect nothing more)."""

    valid: float
    right: float
    tasks: int


def read_tasks(lines: Iterable[str], name: str) -> tuple[Task, ...]:
    """Tasks of JSON lines; RequestError names the line that is none. name: of the file."""
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{name}, line {number}"
            try:
                found.append(_task(json.loads(line)))
            except SchemaError as error:
                raise RequestError(f"{where}: no JSON schema: {error.message}", "file") from None
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise RequestError(f"{where}: no task: {error!r}", "file") from None
    if not found:
        raise RequestError(f"{name} has no tasks: expected one JSON object on each line", "file")
    return tuple(found)


def _task(record: dict[str, Any]) -> Task:
    messages = record.get("messages") or [{"role": "user", "content": record["prompt"]}]
    tools = record.get("tools", [])
    for tool in tools:
        Draft202012Validator.check_schema(tool["function"]["parameters"])
    if not tools:
        Draft202012Validator.check_schema(record["schema"])
    expect = record.get("expect", {})
    return Task(
        tuple(messages),
        tuple(tools),
        expect.get("name"),
        expect.get("arguments"),
        None if tools else record["schema"],
    )


def tool_calls(
    model: Model, tasks: Sequence[Task], watch: Callable[[int, int, float], None] | None = None
) -> CallScore:
    """Has the model answer every task, greedily. watch: (tasks done, in all, valid so far)."""
    params = SamplingParams(temperature=0, max_tokens=MAX_TOKENS, seed=0)
    results: list[tuple[bool, bool]] = []
    for task in tasks:
        answer = model.chat(task.messages, params, list(task.tools) or None)
        results.append(_judged(answer, task))
        if watch:
            watch(len(results), len(tasks), sum(valid for valid, _ in results) / len(results))
    return CallScore(
        valid=sum(valid for valid, _ in results) / len(results),
        right=sum(right for _, right in results) / len(results),
        tasks=len(results),
    )


def _judged(answer: Completion, task: Task) -> tuple[bool, bool]:
    """Whether an answer is valid, and right."""
    if task.schema is not None:
        valid = _meets(_parsed(answer.text), task.schema)
        return valid, valid
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in task.tools}
    calls = answer.tool_calls
    valid = bool(calls) and all(
        call.name in schemas and _meets(_parsed(call.arguments), schemas[call.name])
        for call in calls
    )
    right = valid and (task.name is None or calls[0].name == task.name)
    if right and task.arguments is not None:
        right = _parsed(calls[0].arguments) == task.arguments
    return valid, right


def _parsed(text: str) -> Any:
    """The JSON value, also of one in a fenced block; None when it is none."""
    body = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _meets(value: Any, schema: Message) -> bool:
    return value is not None and Draft202012Validator(schema).is_valid(value)
