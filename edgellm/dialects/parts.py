"""What an answer is taken apart into. Data only."""

from dataclasses import dataclass, replace
from typing import Literal, Protocol


@dataclass(frozen=True)
class TextPart:
    """More of what is said, or of the reasoning before it."""

    text: str
    kind: Literal["content", "reasoning"] = "content"


@dataclass(frozen=True)
class CallPart:
    """More of tool call `index` of an answer. id and name come with its first part alone;
    arguments, joined, are the JSON text of an object. is_end: it is complete, and valid."""

    index: int
    arguments: str
    id: str | None = None
    name: str | None = None
    is_end: bool = False


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


def merged(parts: list[Part]) -> list[Part]:
    """The same with as few parts as can be."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, TextPart) and isinstance(last, TextPart) and last.kind == part.kind:
            found[-1] = replace(last, text=last.text + part.text)
        elif (
            isinstance(part, CallPart)
            and isinstance(last, CallPart)
            and last.index == part.index
            and part.name is None
        ):
            arguments = last.arguments + part.arguments
            found[-1] = replace(last, arguments=arguments, is_end=part.is_end)
        else:
            found.append(part)
    return found
