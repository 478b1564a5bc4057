"""How tests read an answer: all at once, letter by letter, in random pieces."""

import json
from collections.abc import Iterable
from typing import Any

from edgellm.dialects import CallPart, Part, TextPart, Tools, merged, plan, read_tools
from edgellm.dialects.dialect import MARKS
from edgellm.types import ModelDetails, SamplingParams

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "units": {"enum": ["metric", "imperial"]},
            },
            "required": ["city"],
        },
    },
}
NOTE = {
    "type": "function",
    "function": {
        "name": "note",
        "description": "Keeps a text.",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "at": {
                    "type": "object",
                    "properties": {"line": {"type": "number"}, "last": {"type": "boolean"}},
                },
            },
            "required": ["text"],
        },
    },
}
TOOLS = [WEATHER, NOTE]


def details(template: str, control: Iterable[str] = ()) -> ModelDetails:
    """A model of this template, whose `control` markers are tokens 1000, 1001, ..."""
    ids = {mark: 1000 + i for i, mark in enumerate(control)}
    assert ids.keys() <= MARKS
    return ModelDetails(
        *("m", "llama", template, "", "", None, False, (), {}, 0, 0, "F32", None, None),
        control_marks=ids,
    )


def read(
    template: str,
    pieces: Iterable[str],
    tools: Tools | None = None,
    tail: str = "assistant\n",
    streams: bool = False,
    is_apart: bool = True,
) -> list[Part]:
    """The parts of an answer that comes in these pieces."""
    asked = plan(details(template), tools)
    parser = asked.answering(SamplingParams(), tail, streams, is_apart).parser()
    parts = [part for piece in pieces for part in parser.push(piece)]
    return merged(parts + parser.finish())


def given_tools(choice: Any = "auto", **changes: Any) -> Tools:
    return read_tools(TOOLS, choice, **changes)


def content(parts: list[Part]) -> str:
    return "".join(p.text for p in parts if isinstance(p, TextPart) and p.kind == "content")


def reasoning(parts: list[Part]) -> str:
    return "".join(p.text for p in parts if isinstance(p, TextPart) and p.kind == "reasoning")


def calls(parts: list[Part]) -> list[tuple[str | None, Any]]:
    """Names and arguments, in order."""
    found = [part for part in parts if isinstance(part, CallPart)]
    assert [part.index for part in found] == list(range(len(found)))
    assert all(part.is_end and part.id for part in found)
    return [(part.name, json.loads(part.arguments)) for part in found]


def plain(parts: list[Part]) -> list[Any]:
    """The parts without ids, to be compared."""
    return [
        (part.index, part.name, part.arguments, part.is_end) if isinstance(part, CallPart) else part
        for part in parts
    ]
