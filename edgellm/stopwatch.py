"""How long a request has waited and run. Knows nothing of what it asks for."""

import time
from dataclasses import dataclass, field

from edgellm.types import Timings


@dataclass(eq=False)
class Stopwatch:
    """When a request was submitted, began to run and got its first token, on the clock of
    time.monotonic; None: not yet."""

    submitted: float = field(default_factory=time.monotonic)
    begun: float | None = None
    first: float | None = None

    def begin(self) -> None:
        """It runs; later calls change nothing."""
        if self.begun is None:
            self.begun = time.monotonic()

    @property
    def running(self) -> float:
        """Seconds since it began to run."""
        return 0.0 if self.begun is None else time.monotonic() - self.begun

    def take_token(self) -> None:
        """A token is there; later ones change nothing."""
        if self.first is None:
            self.first = time.monotonic()

    def timings(self) -> Timings:
        """Until now. What has not happened happens now."""
        now = time.monotonic()
        begun = now if self.begun is None else self.begun
        first = now if self.first is None else self.first
        return Timings(begun - self.submitted, first - self.submitted, now - first)
