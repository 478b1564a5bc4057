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

WINDOW = 0.05  # seconds of steps from one decision to the next
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds until more threads are tried again
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
        self._raise_at: float | None = None  # when to try more threads; None with all of them
        self._is_trial = False  # whether this window is the first with more threads
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
        on_core = 1.0 - part_waiting
        if self.threads > 1 and on_core ** (self.threads / 2) < WORTH:
            self.threads //= 2
            self._pause = min(2 * self._pause, LONGEST_PAUSE) if self._is_trial else FIRST_PAUSE
            self._raise_at = now + self._pause
            self._is_trial = False
        elif self._raise_at is not None and now >= self._raise_at:
            self.threads = min(2 * self.threads, self._most)
            self._raise_at = now + self._pause if self.threads < self._most else None
            self._is_trial = True
        else:
            self._is_trial = False
