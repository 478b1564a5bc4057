"""Shows on standard error how far a download or a compilation is: a bar on a terminal, notes alone
elsewhere.

Standard output stays free for what the command answers.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from edgellm.escapes import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Unit = Literal["bytes", "things"]


class DownloadProgress:
    """A Report and a context manager; the bar appears with the first byte or the first count."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._unit: Unit | None = None  # of what the bar shows
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, what: str, done: int, total: int | None) -> None:
        self._show("bytes", what, done, total)

    def count(self, what: str, done: int, total: int) -> None:
        self._show("things", what, done, total)

    def note(self, text: str) -> None:
        line = f"edgellm: {printable(text)}"
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr)

    def _show(self, unit: Unit, what: str, done: int, total: int | None) -> None:
        if not sys.stderr.isatty():
            return
        if self._bar is None or unit != self._unit:
            if self._bar is not None:
                self._bar.stop()
            self._bar, self._unit = _bar(unit), unit
            self._tasks.clear()
            self._bar.start()
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)


def _bar(unit: Unit) -> "Progress":
    from rich import progress
    from rich.console import Console

    amounts: Sequence[progress.ProgressColumn] = (progress.MofNCompleteColumn(),)
    if unit == "bytes":
        amounts = (progress.DownloadColumn(), progress.TransferSpeedColumn())
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        *amounts,
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


Watch = Callable[[int, int, float], None]  # (done, in all, the figure so far)
NamedWatch = Callable[[int, int, str], None]  # (done, in all, what is worked on)


@contextmanager
def named_bar(task: str, total: int | None = None) -> Iterator[NamedWatch | None]:
    """A bar on standard error when that is a terminal, under a name that changes; else None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(task, total=total)

        def watch(done: int, total: int, name: str) -> None:
            progress.update(bar, completed=done, total=total, description=name)

        yield watch


@contextmanager
def progress_bar(task: str) -> Iterator[Watch | None]:
    """The same under one name, with a figure beside it."""
    with named_bar(task) as watch:
        if watch is None:
            yield None
        else:
            yield lambda done, total, value: watch(done, total, f"{task} {value:.4f}")
