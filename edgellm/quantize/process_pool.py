"""Processes that do calls for threads here, each over pipes of its own.

The standard library's pool has one pipe for all answers: a process that the system kills while it
writes keeps everybody's turn to write, and the reader waits for the other half. Knows nothing of
what is called: functions of modules, plain data.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from traceback import format_exc
from typing import Any, TypeVar, cast

from threadpoolctl import threadpool_limits

from edgellm.errors import BackendError
from edgellm.signals import handled

T = TypeVar("T")

_PIPES = 2  # of each process: the next call is there when one is done


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
    """A thread here waits for the answers of each pipe. When a process dies, even in the middle of
    an answer, its pipes end: no other process has those ends."""

    def __init__(self, count: int) -> None:
        super().__init__(_PIPES * count)
        self._count = count
        self._processes: list[Any] = []
        self._pipes: list[list[Connection]] = []  # of each process
        self._free: SimpleQueue[Connection] = SimpleQueue()

    def start(self) -> None:
        context = get_context("spawn")  # not forked: the engine's threads may hold locks
        for _ in range(self._count):
            ours, theirs = zip(*(context.Pipe() for _ in range(_PIPES)), strict=True)
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            for end in theirs:
                end.close()
            self._processes.append(process)
            self._pipes.append(list(ours))
        for pipes in zip(*self._pipes, strict=True):  # all get one call before any gets two
            for pipe in pipes:
                self._free.put(pipe)

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
        for process in self._processes:
            process.kill()

    def join(self) -> None:
        """The end of their pipes is what processes end at."""
        for process, pipes in zip(self._processes, self._pipes, strict=True):
            for pipe in pipes:
                pipe.close()
            process.join()


def _serve(connections: Sequence[Connection]) -> None:
    """A process: does calls until whoever gives them has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever gave the work will end it
    threadpool_limits(1, "blas")  # there are enough of us
    with suppress(EOFError, OSError):
        for connection in _asked(connections):
            function, args, kwargs = connection.recv()
            answer: tuple[Any, Exception | None]
            try:
                answer = function(*args, **kwargs), None
            except Exception as error:
                error.add_note(format_exc())
                answer = None, error
            connection.send(answer)


def _asked(connections: Sequence[Connection]) -> Iterator[Connection]:
    """Those with a call, or with their end, as they come."""
    while True:
        yield from cast(list[Connection], wait(connections))


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
