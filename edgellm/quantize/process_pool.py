"""Processes that do calls for threads here, each over a pipe of its own.

The standard library's pool has one pipe for all answers: a process that the system kills while it
writes keeps everybody's turn to write, and the reader waits for the other half. Knows nothing of
what is called: functions of modules, plain data.
"""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import LifoQueue
from traceback import format_exc
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from edgellm.errors import BackendError
from edgellm.signals import handled

T = TypeVar("T")


@contextmanager
def process_pool(count: int) -> Iterator[Executor]:
    """An Executor of `count` processes. A call whose process was ended raises BackendError.

    An error of the block kills them, and with them what they do.
    """
    pool = _ProcessPool(count)
    try:
        with _signals_later():  # a process that is half started would complain of them
            pool.start()
        yield pool
    except BaseException:
        pool.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        pool.join()


class _ProcessPool(ThreadPoolExecutor):
    """A thread here waits for each process. When one dies, even in the middle of an answer, its
    pipe ends: no other process has that end."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._count = count
        self._children: list[tuple[Any, Connection]] = []
        self._free: LifoQueue[Connection] = LifoQueue()

    def start(self) -> None:
        context = get_context("spawn")  # not forked: the engine's threads may hold locks
        for _ in range(self._count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._children.append((process, ours))
            self._free.put(ours)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(self._call, fn, args, kwargs)

    def _call(self, function: Callable[..., T], args: Any, kwargs: Any) -> T:
        connection = self._free.get()
        try:
            connection.send((function, args, kwargs))
            result, error = connection.recv()
        except (EOFError, OSError):
            raise BackendError(
                "a process that quantised was ended from outside: is there too little memory? "
                "--threads 1 works without"
            ) from None
        finally:
            self._free.put(connection)
        if error is not None:
            raise error
        done: T = result
        return done

    def kill(self) -> None:
        for process, _ in self._children:
            process.kill()

    def join(self) -> None:
        """The end of their pipes is what processes end at."""
        for process, connection in self._children:
            connection.close()
            process.join()


def _serve(connection: Connection) -> None:
    """A process: does calls until whoever gives them has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever gave the work will end it
    threadpool_limits(1, "blas")  # there are enough of us
    with suppress(EOFError, OSError):
        while True:
            function, args, kwargs = connection.recv()
            answer: tuple[Any, Exception | None]
            try:
                answer = function(*args, **kwargs), None
            except Exception as error:
                error.add_note(format_exc())
                answer = None, error
            connection.send(answer)


@contextmanager
def _signals_later() -> Iterator[None]:
    """Signals that end us do so behind the block, where Python handles them."""
    seen: list[int] = []
    with handled(
        (signal.SIGINT, signal.SIGTERM), lambda number, frame: seen.append(number), callable
    ):
        yield
    for told in seen:
        signal.raise_signal(told)
