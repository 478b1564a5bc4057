"""What a decode step of so many rows takes, from the steps so far. Plain Python; reads no clock."""

from collections import deque

from edgellm.median import median

_KEPT = 9  # measurements per number of rows
_STEPS_KEPT = 512  # after which a number of rows that was not run again is unmeasured
_SLOPE = 0.1  # of one row's time for each further one, where nothing is measured


class RowCost:
    """Medians of the last measurements; between and beyond them, straight lines."""

    def __init__(self) -> None:
        self._measured: dict[int, deque[float]] = {}
        self._last: dict[int, int] = {}  # rows -> step
        self._steps = 0

    def observe(self, rows: int, seconds: float) -> None:
        """A step of so many rows took `seconds`."""
        self._steps += 1
        self._measured.setdefault(rows, deque(maxlen=_KEPT)).append(seconds)
        self._last[rows] = self._steps
        for old in [r for r, step in self._last.items() if self._steps - step > _STEPS_KEPT]:
            del self._last[old], self._measured[old]

    def seconds(self, rows: int) -> float:
        """What a step of so many rows should take; in units of one row's while none is known."""
        if rows in self._measured:
            return median(self._measured[rows])
        below = max((r for r in self._measured if r < rows), default=None)
        above = min((r for r in self._measured if r > rows), default=None)
        if below is None and above is None:
            return 1.0 + _SLOPE * (rows - 1)
        if below is None or above is None:
            known = above if below is None else below
            assert known is not None
            first = self.seconds(known) / (1.0 + _SLOPE * (known - 1))
            return first * (1.0 + _SLOPE * (rows - 1))
        low, high = self.seconds(below), self.seconds(above)
        return low + (high - low) * (rows - below) / (above - below)
