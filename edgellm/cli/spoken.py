"""Writes an answer as it comes: its text to standard output, its reasoning to standard error.

Knows no engine. On a terminal reasoning is dim, and control characters are shown escaped: a model
must not command it.
"""

import sys
from collections.abc import Iterable
from typing import TextIO

from edgellm.dialects import Part, TextPart
from edgellm.escapes import harmless

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Spoken:
    """One answer on the standard streams.

    shows_reasoning: None is for a person alone, when both streams are a terminal.
    """

    def __init__(self, shows_reasoning: bool | None = None) -> None:
        is_seen = sys.stdout.isatty() and sys.stderr.isatty()
        self._shows_reasoning = is_seen if shows_reasoning is None else shows_reasoning
        self._is_reasoning = False

    def write(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if isinstance(part, TextPart) and part.kind == "content":
                self._end_reasoning()
                _write(sys.stdout, part.text)
            elif isinstance(part, TextPart) and self._shows_reasoning:
                self._is_reasoning = True
                _write(sys.stderr, part.text, _DIM, _PLAIN)  # plain again if no more comes

    def end(self) -> None:
        """Leaves a terminal at the beginning of a line."""
        self._end_reasoning()
        if sys.stdout.isatty():
            print()

    def _end_reasoning(self) -> None:
        if self._is_reasoning:
            self._is_reasoning = False
            print("\n", file=sys.stderr, flush=True)


def _write(stream: TextIO, text: str, before: str = "", after: str = "") -> None:
    """before, after: what commands a terminal."""
    if stream.isatty():
        text = before + harmless(text) + after
    stream.write(text)
    stream.flush()
