"""The threads that run steps: one team per process, parked when there is nothing to do.

Thread 0 is whoever calls `run`. The others wait in native code for a short while after each step,
then return to Python and wait on a semaphore, so that an idle team uses no processor time.
"""

import ctypes
import os
import threading

import numpy as np

from edgellm.kernels.cpu import team_words as words
from edgellm.kernels.cpu.limits import usable_threads
from edgellm.kernels.cpu.objects import KERNEL_TYPE, Library

TEAM_KERNELS = (("lead",), ("work",), ("post",))
SPIN_ROUNDS = 20_000  # of about 10 ns: a worker parks some 200 us after the last step


def _yield_address() -> int:
    """Address of the system's "let another thread run"."""
    library = ctypes.windll.kernel32 if os.name == "nt" else ctypes.CDLL(None)  # type: ignore[attr-defined,unused-ignore]
    function = library.SwitchToThread if os.name == "nt" else library.sched_yield
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


class Team:
    """`threads` threads, the caller of run included."""

    def __init__(self, library: Library, threads: int | None = None) -> None:
        self.threads = usable_threads(threads)
        library.load(TEAM_KERNELS)
        self._library = library
        self._lead, self._work, self._post = (
            KERNEL_TYPE(library.address(key)) for key in TEAM_KERNELS
        )
        lines = np.zeros(words.num_words(self.threads) + words.WORDS_PER_LINE, np.int64)
        skip = -lines.ctypes.data // 8 % words.WORDS_PER_LINE
        self._words = lines[skip:]
        self._words[words.SPIN_ROUNDS] = SPIN_ROUNDS
        self._words[words.YIELD_FUNCTION] = _yield_address()
        for worker in range(self.threads):
            self._words[words.STATES + worker * words.WORDS_PER_LINE] = words.PARKED
        self._address = self._words.ctypes.data
        self._woken = np.zeros(self.threads, np.int64)
        self._woken_address = self._woken.ctypes.data
        self._lock = threading.Lock()
        self._wakers = [threading.Semaphore(0) for _ in range(self.threads)]
        self._stopped = False
        self._workers = [
            threading.Thread(
                target=self._serve, args=(worker,), name=f"edgellm-{worker}", daemon=True
            )
            for worker in range(1, self.threads)
        ]
        for thread in self._workers:
            thread.start()

    def run(self, table: int, num_ops: int, step: int) -> None:
        """Runs an op table (address) on a step record (address); returns when all is done."""
        with self._lock:
            if self._stopped:
                raise RuntimeError("the thread team is closed")
            self._words[words.TABLE] = table
            self._words[words.NUM_OPS] = num_ops
            self._words[words.STEP] = step
            self._post(self._address, self._woken_address, 0, self.threads)
            for worker in self._woken.nonzero()[0]:
                self._wakers[worker].release()
            self._lead(self._address, None, 0, self.threads)

    def close(self) -> None:
        """Ends the worker threads."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self._words[words.STOP] = 1
            for waker in self._wakers:
                waker.release()
        for thread in self._workers:
            thread.join()

    def _serve(self, worker: int) -> None:
        seen = np.zeros(1, np.int64)
        address = seen.ctypes.data
        while True:
            self._wakers[worker].acquire()
            if self._stopped:
                return
            self._work(self._address, address, worker, self.threads)
