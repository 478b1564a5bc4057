"""How many threads of a team a step should take while other programs want the processors too.

Threads that meet after every operation all wait for one that has lost its core. When the system
says that the first of them keeps waiting for a core, fewer of them get further. The number of
threads changes no bit of a result. Knows nothing of what steps are; Linux tells, elsewhere all
threads always run.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from edgellm.linux import read_file

WINDOW = 0.05  # seconds of steps from one look to the next
SETTLING = 2  # windows after threads were woken: the system first puts some on one core
PATIENCE = 3  # windows in a row that must say so before fewer threads run
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 16.0  # seconds until more threads are tried again
# Of n threads, each on a core for a part p of the time, all are for a part p ** n or so, and n
# times as much is then done. Half of them do more when p ** (n / 2) is below 1 / 2; somewhat more
# is asked for, since they take each other's place, too.
WORTH = 0.6

_WAITED = Path("/proc/thread-self/schedstat")  # nanoseconds run, nanoseconds waited, time slices


def seconds_waited() -> float | None:
    """How long this thread has been ready to run without a core; None where nobody counts."""
    words = read_file(_WAITED).split()
    return int(words[1]) * 1e-9 if len(words) == 3 else None


class Pace:
    """Chooses between all threads, half of them, a quarter, ..., one.

    waited, now: this thread's seconds without a core so far, and the time; a test brings its own.
    """

    def __init__(
        self,
        threads: int,
        waited: Callable[[], float | None] = seconds_waited,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.threads = threads
        self._most = threads
        self._waited, self.now = waited, now
        self._pause = FIRST_PAUSE
        self._raise_at = 0.0  # when to try more threads
        self._is_trial = False  # whether these are more than before
        self._windows = self._bad = 0  # with so many threads; bad ones of them in a row
        self._begin_window()

    def ran(self, begin: float) -> None:
        """A step began at this time and has just ended, on this thread."""
        if self._most == 1:
            return
        end = self.now()
        self._busy += end - begin
        if self._busy < WINDOW:
            return
        waited, ident = self._waited(), threading.get_ident()
        if waited is not None and self._before is not None and ident == self._ident:
            self._decide(min(1.0, (waited - self._before) / self._busy), end)
        self._begin_window(waited)

    def _begin_window(self, waited: float | None = None) -> None:
        self._busy, self._before, self._ident = 0.0, waited, threading.get_ident()

    def _decide(self, part_waiting: float, now: float) -> None:
        self._windows += 1
        is_bad = self.threads > 1 and (1.0 - part_waiting) ** (self.threads / 2) < WORTH
        self._bad = self._bad + 1 if is_bad and self._windows > SETTLING else 0
        if self._bad == PATIENCE:
            has_failed = self._is_trial and self._windows == SETTLING + PATIENCE
            self._pause = min(2 * self._pause, LONGEST_PAUSE) if has_failed else FIRST_PAUSE
            self._run_on(self.threads // 2, now + self._pause)
        elif self.threads < self._most and now >= self._raise_at:
            self._run_on(min(2 * self.threads, self._most), now + FIRST_PAUSE)

    def _run_on(self, threads: int, raise_at: float) -> None:
        self._is_trial = threads > self.threads
        self.threads, self._raise_at = threads, raise_at
        self._windows = self._bad = 0
