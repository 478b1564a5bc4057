"""Those who quantise side by side: processes, where there is much to do.

What quantisers ask of numpy is short, so that threads of one interpreter would wait for each other:
two of them got a sixth more done than one, two processes twice as much. What workers are given and
give back is therefore plain data and functions of modules. Knows nothing of what they do.
"""

import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from threadpoolctl import threadpool_limits

from edgellm.errors import BackendError
from edgellm.signals import handled

_FEW = 1 << 25  # weights that take no longer than it takes processes to start


@contextmanager
def workers(count: int, weights: int) -> Iterator[Executor]:
    """A pool of `count` for so many weights. BackendError when one of them was killed."""
    with _pool(count, weights) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise BackendError(
                "a process that quantised was ended from outside: is there too little memory? "
                "--threads 1 works without"
            ) from None
        except BaseException:
            _end(pool)
            raise
        finally:
            # The pool itself leaves what waits: futures that others cancel break it when a
            # process was ended, and it would then wait for that one for ever.
            pool.shutdown(cancel_futures=True)


def _pool(count: int, weights: int) -> Executor:
    if count == 1 or weights <= _FEW:
        return ThreadPoolExecutor(count)
    # Not forked: the engine's threads may hold locks.
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin)
    try:
        with _signals_later():  # a process that is half started would complain of them
            for _ in range(count):
                pool.submit(int)
    except BaseException:
        pool.shutdown()
        raise
    return pool


def _end(pool: Executor) -> None:
    """Ends processes at once, and with them what they do.

    One that is told to end while it writes leaves half a result. The pool would wait for the rest
    for ever, as long as anybody could write it: the pool's own end of the pipe, too.
    """
    if isinstance(pool, ProcessPoolExecutor):
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool._result_queue._writer.close()  # type: ignore[attr-defined]


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


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever gave the work will end it
    threadpool_limits(1, "blas")  # there are enough of us
