"""Answers taken apart as they stream: reasoning, text, tool calls. Knows no engine and no API.

A dialect is one model family's way of writing them; each has a file here. Until a family's is
there, all of an answer is text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from edgellm.errors import BackendError
from edgellm.types import Message, ModelDetails


@dataclass(frozen=True)
class TextPart:
    """More of what is said, or of the reasoning before it."""

    text: str
    kind: Literal["content", "reasoning"] = "content"


@dataclass(frozen=True)
class CallPart:
    """More of tool call `index` of an answer. id and name come with its first part alone;
    arguments, joined, are JSON text."""

    index: int
    arguments: str
    id: str | None = None
    name: str | None = None


Part = TextPart | CallPart


class Parser(Protocol):
    """Takes one answer apart."""

    def push(self, text: str) -> list[Part]:
        """What the next piece of the text makes certain."""

    def finish(self) -> list[Part]:
        """What was held back, when the text is over."""


class PlainParser:
    """All is content."""

    def push(self, text: str) -> list[Part]:
        return [TextPart(text)] if text else []

    def finish(self) -> list[Part]:
        return []


@dataclass(frozen=True)
class Plan:
    """How a request with tools is asked and its answers are read.

    tools: what the template is given. params: fields of SamplingParams that hold the answer to the
    dialect. skip_special: whether control tokens are left out of the text. parser: makes one for
    each answer.
    """

    tools: list[Message] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    skip_special: bool = True
    parser: type[Parser] = PlainParser


def plan(
    model: ModelDetails, tools: list[Message] | None = None, tool_choice: Any = "auto"
) -> Plan:
    """The plan for a model. tool_choice: as in the OpenAI API.

    BackendError when a call is required that this model's dialect cannot be held to.
    """
    if not tools or tool_choice == "none":
        return Plan()
    if tool_choice not in ("auto", None):
        raise BackendError(
            f"tool_choice: {model.name} cannot be made to call a tool yet: leave it out or say auto"
        )
    return Plan(tools=tools)
