"""The way of events from the engine's thread to an event loop. Knows nothing of requests."""

import asyncio
from collections import deque
from collections.abc import Callable

from edgellm.types import TokenEvent

Take = Callable[[TokenEvent | Exception], None]  # what is called with the events of a request


class Crossing:
    """Carries events from the engine's thread to a loop, which is woken once for all of a step.

    after_step: has what it is given called in the engine's thread, once the step is over.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, after_step: Callable[[Callable[[], None]], None]
    ) -> None:
        self.loop = loop
        self._after_step = after_step
        self._events: deque[tuple[Take, TokenEvent | Exception]] = deque()
        self._is_awaited = False  # by the loop, or its waking is to come
        self._is_closed = False
        self._is_delivering = False
        self._afterwards: list[Callable[[], None]] = []

    def put(self, take: Take, event: TokenEvent | Exception) -> None:
        """Has the loop call `take` with the event. Called in the engine's thread.

        RuntimeError when the loop was found closed.
        """
        if self._is_closed:
            raise RuntimeError("the loop that this was for is closed")
        self._events.append((take, event))
        if not self._is_awaited:
            self._is_awaited = True
            self._after_step(self._wake)

    def after_events(self, action: Callable[[], None]) -> None:
        """Has `action` called once all events that are there are taken. Called in the loop."""
        if self._is_delivering:
            self._afterwards.append(action)
        else:
            action()

    def _wake(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            self._is_closed = True

    def _deliver(self) -> None:
        self._is_awaited = False  # before the events are taken: one that comes now wakes again
        self._is_delivering = True
        while self._events:
            take, event = self._events.popleft()
            take(event)
        self._is_delivering = False
        for action in self._afterwards:
            action()
        self._afterwards.clear()
