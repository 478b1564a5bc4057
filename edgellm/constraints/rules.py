"""What the rules of a grammar are made of. Knows nothing of how they are read or written."""

from dataclasses import dataclass

from edgellm.errors import RequestError


@dataclass(frozen=True)
class Text:
    """These characters."""

    text: str


@dataclass(frozen=True)
class OneOf:
    """One character that the regular expression `regex` matches."""

    regex: str


@dataclass(frozen=True)
class Call:
    """Another rule. line: where it is named."""

    name: str
    line: int


@dataclass(frozen=True)
class Chain:
    """One after the other; nothing where there are none."""

    parts: tuple["Node", ...]


@dataclass(frozen=True)
class Either:
    """One of them."""

    choices: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    """The node `least` to `most` times; None is without end."""

    node: "Node"
    least: int
    most: int | None


Node = Text | OneOf | Call | Chain | Either | Repeat


def escaped(character: str) -> str:
    """A character as it is written in a regular expression between slashes."""
    return character if character.isalnum() else f"\\u{{{ord(character):X}}}"


def wrong(line: int, what: str) -> RequestError:
    """The error that a line of the grammar deserves."""
    return RequestError(f"grammar: line {line}: {what}", "grammar")
