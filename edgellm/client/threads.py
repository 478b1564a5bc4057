"""Work in threads, awaited. Knows nothing of the work."""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")
MOST_IDLE = 4  # threads
IDLE_SECONDS = 10.0


class Threads:
    """Threads that nothing waits for once their callers have gone; a few stay for more work.

    An executor's threads are waited for when the program ends, so that Ctrl-C during a download
    would wait for all of it.
    """

    def __init__(self) -> None:
        self._handed: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._books = threading.Lock()
        self.idle = 0  # threads that wait and that nobody counts on

    async def do(self, work: Callable[[], T]) -> T:
        """Awaits `work` done in a thread."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def settle(settler: Callable[[], None]) -> None:
            if not result.cancelled():
                settler()

        def body() -> None:
            try:
                settler = partial(result.set_result, work())
            except BaseException as error:
                settler = partial(result.set_exception, error)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, settler)

        self._start(body)
        return await result

    def _start(self, body: Callable[[], None]) -> None:
        with self._books:
            is_idle = self.idle > 0
            self.idle -= is_idle
        if is_idle:
            self._handed.put(body)
        else:
            threading.Thread(target=self._run, args=(body,), daemon=True).start()

    def _run(self, body: Callable[[], None] | None) -> None:
        while body is not None:
            body()
            del body  # and what it holds
            body = self._next()

    def _next(self) -> Callable[[], None] | None:
        """More work, if there is some before long."""
        with self._books:
            if self.idle == MOST_IDLE:
                return None
            self.idle += 1
        with suppress(queue.Empty):
            return self._handed.get(timeout=IDLE_SECONDS)
        with self._books:
            if self.idle > 0:
                self.idle -= 1
                return None
        return self._handed.get()  # somebody counted on this thread
