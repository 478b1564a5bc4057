"""The threads that run steps: one team per process, parked when there is nothing to do.

Thread 0 is whoever calls `run`. The others live in one native call: after each step they wait for
a short while, then sleep in the system on a pipe of their own, so that an idle team uses no
processor time. A step is one native call too, waking included: an interrupt comes before it or
after it, and nobody ever waits for the interpreter lock.
"""

import ctypes
import os
import sys
import threading

import numpy as np

from edgellm.errors import BackendError
from edgellm.kernels.cpu import team_words as words
from edgellm.kernels.cpu.limits import usable_threads
from edgellm.kernels.cpu.objects import KERNEL_TYPE, Library
from edgellm.kernels.cpu.pace import Pace

TEAM_KERNELS = (("lead",), ("work",))
# Of about 10 ns: a worker parks some 1 ms after a step, and drawing a token takes less.
SPIN_ROUNDS = 100_000


def _system_functions() -> tuple[int, int, int]:
    """Addresses of "let another thread run", read and write."""
    if sys.platform == "win32":
        kernel, runtime = ctypes.WinDLL("kernel32"), ctypes.CDLL("ucrtbase")
        functions = kernel.SwitchToThread, runtime._read, runtime._write
    else:
        system = ctypes.CDLL(None)
        functions = system.sched_yield, system.read, system.write
    yielding, reading, writing = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions)
    return yielding, reading, writing


class Team:
    """`threads` threads, the caller of run included; a step takes as many as `pace` says.

    Python threads may use one team in turn. A forked child must make its own.
    """

    def __init__(self, library: Library, threads: int | None = None) -> None:
        self.threads = usable_threads(threads)
        self.pace = Pace(self.threads)
        library.load(TEAM_KERNELS)
        self._library = library
        self._lead, self._work = (KERNEL_TYPE(library.address(key)) for key in TEAM_KERNELS)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._make_record()
        self._pipes: list[tuple[int, int]] = []
        self._workers: list[threading.Thread] = []
        try:
            for worker in range(1, self.threads):
                self._start(worker)
        except (OSError, RuntimeError) as error:
            self.close()
            raise BackendError(
                f"thread {worker + 1} of {self.threads} cannot be started ({error}): "
                "ask for fewer threads"
            ) from error

    def _make_record(self) -> None:
        size = words.num_words(self.threads)
        lines = np.zeros(size + words.WORDS_PER_LINE, np.int64)
        skip = -lines.ctypes.data // lines.itemsize % words.WORDS_PER_LINE
        self._words = lines[skip : skip + size]
        self._address = self._words.ctypes.data
        self._words[words.SPIN_ROUNDS] = SPIN_ROUNDS
        addresses = slice(words.YIELD_FUNCTION, words.WRITE_FUNCTION + 1)
        self._words[addresses] = _system_functions()

    def _start(self, worker: int) -> None:
        pipe = os.pipe()
        self._pipes.append(pipe)
        line = words.THREADS + worker * words.WORDS_PER_THREAD
        self._words[line + words.SLEEP_FILE], self._words[line + words.WAKE_FILE] = pipe
        thread = threading.Thread(
            target=self._serve, args=(worker,), name=f"edgellm-{worker}", daemon=True
        )
        thread.start()
        self._workers.append(thread)

    def run(self, table: int, num_ops: int, step: int, times: int = 1) -> None:
        """Runs an op table (address) on a step record (address), so many times one after another;
        returns when all is done."""
        if self._process != os.getpid():
            raise BackendError("a forked process cannot use its parent's threads: load again")
        with self._lock:
            if self._closed:
                raise BackendError("the thread team is closed")
            self._words[words.TABLE] = table
            self._words[words.NUM_OPS] = num_ops
            self._words[words.STEP] = step
            self._words[words.TIMES] = times
            begin = self.pace.now()
            self._lead(self._address, None, 0, self.pace.threads)
            self.pace.ran(begin)

    def close(self) -> None:
        """Ends the worker threads."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._closed = True
            self._words[words.STOP] = 1
            for _, wake in self._pipes:
                os.write(wake, b"\0")
            for thread in self._workers:
                thread.join()
            while self._pipes:
                for end in self._pipes.pop():
                    os.close(end)

    def _serve(self, worker: int) -> None:
        # As a method, so that the team and its code live as long as the thread.
        self._work(self._address, None, worker, self.threads)
