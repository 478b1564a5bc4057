"""What drafters learn from their guesses: how often they are right, and what they cost."""

from collections import deque
from dataclasses import dataclass, field

from edgellm.median import median

_PRIOR, _PRIOR_WEIGHT = 0.7, 4.0  # how often a guess is right, as if so many had been counted
_KEPT = 0.95  # of what was counted, each time something is
_TIMES_KEPT = 5
# Without guesses the oldest time is forgotten after so many steps: it may have been a bad moment.
# At each of them the share of right ones goes back to the prior so far. A new try costs some steps.
_STEPS_KEPT, _RECOVERY = 256, 0.005


@dataclass
class HitRate:
    """How often a guess of one kind was right of late. prior: before any was counted."""

    prior: float = _PRIOR

    def __post_init__(self) -> None:
        self._right, self._seen = self.prior * _PRIOR_WEIGHT, _PRIOR_WEIGHT

    @property
    def chance(self) -> float:
        return self._right / self._seen

    def count(self, is_right: bool) -> None:
        """A guess has been decided."""
        self._right = _KEPT * self._right + is_right
        self._seen = _KEPT * self._seen + 1.0

    def recover(self) -> None:
        """Nothing was asked: it is slowly thought better."""
        self._right += _RECOVERY * (self.prior * self._seen - self._right)


@dataclass
class GuessTime:
    """Seconds that a guess takes: the median of the last ones; 0 where none is known.

    The first of all does not count: it meets cold memory.
    """

    _times: deque[float] = field(default_factory=lambda: deque(maxlen=_TIMES_KEPT))
    _is_warm: bool = False
    _idle: int = 0  # steps since the last one

    @property
    def seconds(self) -> float:
        return median(self._times) if self._times else 0.0

    def observe(self, seconds: float) -> None:
        """One took so long."""
        if self._is_warm:
            self._times.append(seconds)
        self._is_warm, self._idle = True, 0

    def fade(self) -> None:
        """A step went by without any."""
        self._idle += 1
        if self._times and self._idle % _STEPS_KEPT == 0:
            self._times.popleft()
