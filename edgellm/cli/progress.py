"""Shows a download on standard error: a bar on a terminal, notes alone elsewhere.

Standard output stays free for what the command answers.
"""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from edgellm.cli.output import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class DownloadProgress:
    """A Report for `edgellm.pull` and a context manager; the bar appears with the first byte."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
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
        if not sys.stderr.isatty():
            return
        bar = self._started()
        if what not in self._tasks:
            self._tasks[what] = bar.add_task(what, total=total)
        bar.update(self._tasks[what], completed=done, total=total)

    def note(self, text: str) -> None:
        line = f"edgellm: {printable(text)}"
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr)

    def _started(self) -> "Progress":
        if self._bar is None:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
                TransferSpeedColumn,
            )

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
        return self._bar
