"""How a download tells what it is doing. Knows nothing of screens; the command line draws."""

from typing import Protocol


class Report(Protocol):
    """What whoever asked for a model may watch."""

    def advance(self, what: str, done: int, total: int | None) -> None:
        """`done` of `total` bytes (None: not known) of the stage `what` are through."""

    def note(self, text: str) -> None:
        """Something worth knowing that is no failure of the whole."""


class Quiet:
    """A Report that nobody watches."""

    def advance(self, what: str, done: int, total: int | None) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class SourceFailed(Exception):
    """This source cannot give the file; the next one may. The message says why."""
