"""What drafters learn from their guesses: how often they are right, and what they cost."""

from dataclasses import dataclass

_PRIOR, _PRIOR_WEIGHT = 0.7, 4.0  # how often a guess is right before any is counted
_KEPT = 0.95  # of what was counted, each time something is
_WEIGHT = 0.2  # of the newest time in a running mean
# Per step without guesses: what is left of that mean, as it may have been a bad moment, and how far
# the share of right ones goes back to the prior. Each new try may cost several steps.
_FORGOTTEN, _RECOVERY = 0.9998, 0.005


@dataclass
class HitRate:
    """How often a guess of one kind was right of late."""

    right: float = _PRIOR * _PRIOR_WEIGHT
    seen: float = _PRIOR_WEIGHT

    @property
    def chance(self) -> float:
        return self.right / self.seen

    def count(self, is_right: bool) -> None:
        """A guess has been decided."""
        self.right = _KEPT * self.right + is_right
        self.seen = _KEPT * self.seen + 1.0

    def recover(self) -> None:
        """Nothing was asked: it is slowly thought better."""
        self.right += _RECOVERY * (_PRIOR * self.seen - self.right)


@dataclass
class GuessTime:
    """Seconds that a guess takes; 0 until one was made."""

    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        """One took so long."""
        self.seconds += (_WEIGHT if self.seconds else 1.0) * (seconds - self.seconds)

    def fade(self) -> None:
        """A step went by without any."""
        self.seconds *= _FORGOTTEN
