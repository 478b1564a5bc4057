"""The history from a screen that must not wait: all of SQLite happens in one thread of its own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from edgellm.tui.history.store import Store

P = ParamSpec("P")
T = TypeVar("T")


class History:
    """A Store in its own thread, which does what it is asked in order.

    Both are called in that thread. on_error: the first of several writes has failed that nobody
    awaits. on_mended: one has succeeded again; those between them are lost.
    """

    def __init__(
        self,
        path: Path,
        on_error: Callable[[Exception], None],
        on_mended: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = path
        self._on_error = on_error
        self._on_mended = on_mended
        self._is_failing = False
        self._thread = ThreadPoolExecutor(1, "history")
        self._store: Store | None = None

    async def open(self) -> Path | None:
        """Opens the file; where a damaged one now lies, or None. HistoryError as Store's."""

        def open_store() -> Path | None:
            self._store = Store(self._path)
            return self._store.moved_aside

        return await asyncio.wrap_future(self._thread.submit(open_store))

    async def ask(
        self, method: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What a method of the Store returns."""
        return await asyncio.wrap_future(self._submit(method, *args, **kwargs))

    def tell(
        self, method: Callable[Concatenate[Store, P], None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Has a method of the Store run soon; nobody waits."""
        self._submit(method, *args, **kwargs).add_done_callback(self._report)

    async def close(self) -> None:
        """Waits for what is still to be written, then closes the file."""
        if self._store is not None:
            await self.ask(Store.close)
        self._thread.shutdown()

    def _submit(
        self, method: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> "Future[T]":
        def run() -> T:
            assert self._store is not None, "the history is not open"
            return method(self._store, *args, **kwargs)

        return self._thread.submit(run)

    def _report(self, done: "Future[None]") -> None:
        error = done.exception()
        was_failing, self._is_failing = self._is_failing, error is not None
        if isinstance(error, Exception) and not was_failing:
            self._on_error(error)
        elif error is None and was_failing:
            self._on_mended()
