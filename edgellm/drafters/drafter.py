"""What every source of guesses is asked for. Knows nothing of steps, engines or logits."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgellm.sequence import Sequence

Hidden = npt.NDArray[np.float32]  # (rows, hidden_size)


class Drafter(Protocol):
    """Guesses what sequences go on with. It sees their tokens and the rows that the model made of
    them, and may do so at every step.

    name: the value of SamplingParams.speculation that asks for it alone. No guess can change an
    answer: one that is not what the model draws itself is taken back.
    """

    @property
    def name(self) -> str: ...

    def follow(self, sequence: Sequence, first: int, hidden: Hidden) -> None:
        """The model's rows of the tokens from position `first` on, once these are sure."""

    def chances(self, sequence: Sequence, most: int) -> list[float]:
        """How likely each of its next guesses is right, given that those before it are.

        At most `most`; empty when it has none. The sequence's tokens are sure.
        """

    def seconds(self, count: int) -> float:
        """What making so many guesses takes."""

    def draft(self, counts: Mapping[Sequence, int]) -> dict[Sequence, list[int]]:
        """So many guesses for each, or fewer. Called at every step, perhaps with no sequence."""

    def forget(self, sequence: Sequence) -> None:
        """The sequence has ended; one that was never seen is no error."""

    def close(self) -> None:
        """Gives back what it holds."""
