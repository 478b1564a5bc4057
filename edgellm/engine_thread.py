"""The thread of engines: callers post actions into its one inbox, and it lets engines take turns.

An engine with work takes a step per turn. Without work the thread sleeps on the inbox. An action
or a request can fail; the thread lives on. Knows nothing of what engines compute.
"""

import logging
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from typing import TypeVar

from edgellm.engine import Engine
from edgellm.errors import EdgeLLMError

T = TypeVar("T")
Action = Callable[[], None]

_log = logging.getLogger("edgellm")


class Inbox:
    """Actions from any thread, for one that takes them. What was there when it closed is taken."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Action | None] = queue.SimpleQueue()  # None is the end
        self._lock = threading.Lock()
        self._is_closed = False

    def put(self, action: Action) -> None:
        """EdgeLLMError when it is closed."""
        with self._lock:
            if self._is_closed:
                raise EdgeLLMError("the engine is closed: load the model again")
            self._queue.put(action)

    def close(self) -> None:
        """May be called again."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._queue.put(None)

    def take(self, wait: bool) -> Iterator[Action | None]:
        """All that is there, and None as the end; with `wait` at least one."""
        if wait:
            yield self._queue.get()
        while not self._queue.empty():
            yield self._queue.get()


class EngineThread:
    """Runs engines in a thread of its own; ends with `close` or when nobody holds it any more."""

    def __init__(self) -> None:
        self._inbox = inbox = Inbox()
        self._engines: list[Engine] = []
        self._after: list[Action] = []
        thread = threading.Thread(
            target=_run,
            args=(inbox, self._engines, self._after),
            name="edgellm-engine",
            daemon=True,
        )
        self._stop = weakref.finalize(self, _stop, inbox, thread)
        thread.start()

    def post(self, action: Action) -> None:
        """Has the thread call `action` between two steps. It must be quick.

        EdgeLLMError when the thread has ended.
        """
        self._inbox.put(action)

    def ask(self, action: Callable[[], T]) -> T:
        """Has the thread call `action` between two steps; what it returns or raises."""
        answer: Future[T] = Future()
        self.post(partial(_settle, action, answer))
        while not answer.done():
            wait([answer], timeout=1.0)  # in turns, as Windows interrupts no other wait
        return answer.result()

    def after_step(self, action: Action) -> None:
        """Calls `action` once the step or the action that this thread is in is over.

        To be called in the thread itself.
        """
        self._after.append(action)

    def attach(self, engine: Engine) -> None:
        """Lets an engine take part."""
        self.post(partial(self._engines.append, engine))

    def detach(self, engine: Engine) -> None:
        """Ends an engine's sequences and closes it, once its current step is over; waits for it."""

        def close() -> None:
            self._engines.remove(engine)
            engine.close()

        self.ask(close)

    def close(self) -> None:
        """Closes all engines and ends the thread. May be called again."""
        self._stop()


def _run(inbox: Inbox, engines: list[Engine], after: list[Action]) -> None:
    while True:
        busy = any(engine.can_step for engine in engines)
        if not busy:
            _check(engines)
        for action in inbox.take(wait=not busy):
            if action is None:
                for engine in engines:
                    engine.close()
                _act_all(after)
                return
            _act(action)
            _act_all(after)
        for engine in engines:
            if engine.can_step:
                engine.step()
                _act_all(after)


def _act(action: Action) -> None:
    try:
        action()
    except Exception:
        _log.exception("an action of the engine's inbox failed")


def _act_all(actions: list[Action]) -> None:
    """Calls all and forgets them."""
    while actions:
        _act(actions.pop())


def _settle(action: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(action())
    except Exception as error:
        answer.set_exception(error)


def _check(engines: list[Engine]) -> None:
    for engine in engines:
        try:
            engine.check_integrity()
        except RuntimeError:
            _log.exception("the engine's books are wrong")


def _stop(inbox: Inbox, thread: threading.Thread) -> None:
    inbox.close()
    if thread is not threading.current_thread():
        thread.join()
