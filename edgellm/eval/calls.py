"""Whether a model writes what programs can read: tool calls, and JSON of a given schema.

Tasks are JSON lines: "messages" (or "prompt", one of the user), and either "tools" as in OpenAI's
API with "expect" {"name", "arguments"}, of which the arguments may be left out, or "schema". No
answer is held to a form: what is measured is what the model does by itself.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from edgellm.dialects import Tools, read_tools
from edgellm.errors import RequestError
from edgellm.llm import Model
from edgellm.types import Completion, Message, SamplingParams

MAX_TOKENS = 128


@dataclass(frozen=True)
class Task:
    """messages: of the chat. tools: those on offer. name, arguments: of the call expected, None
    where any will do. schema: what an answer in JSON must meet, of a task without tools."""

    messages: tuple[Message, ...]
    tools: Tools = Tools()
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
            except Unresolvable as error:
                said = f"no JSON schema: nothing is where {error.ref!r} refers to"
                raise RequestError(f"{where}: {said}", "file") from None
            except RequestError as error:
                raise RequestError(f"{where}: no task: {error}", "file") from None
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise RequestError(f"{where}: no task: {error!r}", "file") from None
    if not found:
        raise RequestError(f"{name} has no tasks: expected one JSON object on each line", "file")
    return tuple(found)


def _task(record: dict[str, Any]) -> Task:
    messages = record.get("messages") or [{"role": "user", "content": record["prompt"]}]
    tools = read_tools(record.get("tools"))
    schema = None if tools.functions else record["schema"]
    for wanted in _schemas(tools).values() if tools.functions else [schema]:
        _check_schema(wanted)
    expect = record.get("expect", {})
    return Task(tuple(messages), tools, expect.get("name"), expect.get("arguments"), schema)


def _check_schema(schema: Any) -> None:
    """SchemaError; Unresolvable for a reference to what is not in it: nothing is fetched."""
    Draft202012Validator.check_schema(schema)
    root = DRAFT202012.create_resource(schema)
    waiting = [(root, Registry[Any]().resolver_with_root(root))]
    while waiting:
        part, resolver = waiting.pop()
        if isinstance(part.contents, Mapping) and "$ref" in part.contents:
            resolver.lookup(part.contents["$ref"])
        waiting += [(inner, resolver.in_subresource(inner)) for inner in part.subresources()]


def tool_calls(
    model: Model, tasks: Sequence[Task], watch: Callable[[int, int, float], None] | None = None
) -> CallScore:
    """Has the model answer every task, greedily. watch: (tasks done, in all, valid so far).

    RequestError for a schema that refers to itself without end, or to what is nowhere.
    """
    params = SamplingParams(temperature=0, max_tokens=MAX_TOKENS, seed=0)
    results: list[tuple[bool, bool]] = []
    for task in tasks:
        answer = model.chat(task.messages, params, list(task.tools.described) or None)
        try:
            results.append(_judged(answer, task))
        except (RecursionError, Unresolvable):
            said = f"task {len(results) + 1} has a schema whose references lead nowhere"
            raise RequestError(said, "file") from None
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
    schemas = _schemas(task.tools)
    calls = answer.tool_calls
    valid = bool(calls) and all(
        call.name in schemas and _meets(_parsed(call.arguments), schemas[call.name])
        for call in calls
    )
    right = valid and (task.name is None or calls[0].name == task.name)
    if right and task.arguments is not None:
        right = _parsed(calls[0].arguments) == task.arguments
    return valid, right


def _schemas(tools: Tools) -> dict[str, Any]:
    """What the arguments of each function must meet."""
    return {name: function.parameters for name, function in (tools.functions or {}).items()}


def _parsed(text: str) -> Any:
    """The JSON value, also of one in a fenced block; None when it is none."""
    body = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _meets(value: Any, schema: Any) -> bool:
    judge = Draft202012Validator(schema, registry=Registry[Any]())
    return value is not None and bool(judge.is_valid(value))
