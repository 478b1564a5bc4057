"""How a download, or a model that is loaded, tells what it is doing. Knows nothing of screens; the
command line draws."""

from typing import Protocol


class Report(Protocol):
    """What whoever asked for a model may watch. What `advance` or `count` raises ends it."""

    def advance(self, what: str, done: int, total: int | None) -> None:
        """`done` of `total` bytes (None: not known) of the stage `what` are through."""

    def count(self, what: str, done: int, total: int) -> None:
        """`done` of `total` things that `what` names are through."""

    def note(self, text: str) -> None:
        """Something worth knowing that is no failure of the whole."""


class Quiet:
    """A Report that nobody watches."""

    def advance(self, what: str, done: int, total: int | None) -> None:
        pass

    def count(self, what: str, done: int, total: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class SourceFailed(Exception):
    """This source cannot give the file; the next one may. The message says why."""
