"""Those who quantise side by side: processes, where there is much to do.

What quantisers ask of numpy is short, so that threads of one interpreter would wait for each other:
two of them got a sixth more done than one, two processes twice as much. What workers are given and
give back is therefore plain data and functions of modules. Knows nothing of what they do.
"""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from edgellm.quantize.process_pool import process_pool

_FEW = 1 << 25  # weights that take no longer than it takes processes to start


@contextmanager
def workers(count: int, weights: int) -> Iterator[Executor]:
    """A pool of `count` for so many weights. A call whose process was ended raises BackendError."""
    if count > 1 and weights > _FEW:
        with process_pool(count) as processes:
            yield processes
        return
    threads = ThreadPoolExecutor(count)
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)
