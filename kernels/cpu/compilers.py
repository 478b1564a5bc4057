"""Processes that compile kernels side by side: a large one takes seconds, most of them Python's.

A process (piped_process.py) answers a key's line with one of its object file, and ends with its
pipes. What one does not make is left to whoever asked. Knows nothing of where code is kept.
"""

import json
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from subprocess import Popen
from typing import IO, Self

from edgellm.kernels.cpu.objects import KernelKey, compiled_here, symbol
from edgellm.kernels.seals import sealed, unsealed
from edgellm.piped_process import end, start

MOST = 4  # processes; each takes some 200 MB, and no more are busy for long
FEWEST = 3  # kernels for a process, which takes a second to start
_LONGEST = ("attention", "matmul", "float_matmul")  # begun first
_CHILD = (
    "from edgellm.kernels.cpu.compilers import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


def side_by_side(
    keys: Sequence[KernelKey], processes: int
) -> Iterator[tuple[KernelKey, bytes | None]]:
    """Object files as they are made, by that many processes; None where none was made."""
    with ExitStack() as at_end:
        threads = at_end.enter_context(ThreadPoolExecutor(processes))
        free: SimpleQueue[_Child] = SimpleQueue()
        at_end.callback(threads.shutdown, wait=False, cancel_futures=True)
        for _ in range(processes):
            free.put(at_end.enter_context(_Child()))

        def make(key: KernelKey) -> bytes | None:
            child = free.get()
            try:
                return child.make(key)
            finally:
                free.put(child)

        ordered = sorted(keys, key=lambda key: key[0] not in _LONGEST)
        made: dict[Future[bytes | None], KernelKey] = {threads.submit(make, k): k for k in ordered}
        for future in as_completed(made):
            yield made[future], future.result()


class _Child:
    """A context manager, whose end kills the process. One that cannot start makes nothing."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        with suppress(OSError):
            self._process = start(_CHILD)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            end(self._process)

    def make(self, key: KernelKey) -> bytes | None:
        if self._process is None:
            return None
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(key).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            return unsealed(symbol(key), bytes.fromhex(answer.decode()))
        except (OSError, ValueError):  # it has gone, or said something else
            return None


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """A process: makes what is asked for until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    for line in requests:
        key = tuple(json.loads(line))
        try:
            answer = sealed(symbol(key), compiled_here(key)).hex()
        except Exception:  # who asked tries it, too, and tells
            answer = ""
        answers.write(answer.encode() + b"\n")
        answers.flush()
