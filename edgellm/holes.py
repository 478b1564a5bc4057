"""What lies around a cursor, and the prompt that has a model fill it in. Data only."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceFile:
    """A file that a model may look at while it completes another."""

    name: str
    text: str


@dataclass(frozen=True)
class Hole:
    """What lies around a cursor. prompt: the beginning of the answer. files: oldest first."""

    prefix: str
    suffix: str
    prompt: str = ""
    files: tuple[SourceFile, ...] = ()


@dataclass(frozen=True)
class FimPrompt:
    """The prompt for a Hole, and how many tokens of prefix, suffix and files were left out."""

    token_ids: tuple[int, ...]
    prefix_cut: int = 0
    suffix_cut: int = 0
    files_cut: int = 0
