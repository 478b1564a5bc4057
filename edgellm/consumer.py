"""Who takes what the engine computes of one sequence: logits, or tokens drawn from them.

Knows nothing of steps, nor of what becomes of either.
"""

from collections.abc import Iterator, Sequence as Seq
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgellm.errors import EdgeLLMError
from edgellm.kernels.draw import Draw
from edgellm.sequence import Sequence

Rows = npt.NDArray[np.float32]  # (rows, vocab_size), valid during the call only


class Consumer(Protocol):
    """Takes the logits of one sequence as steps compute them."""

    request_id: str
    sequence: Sequence

    def begin(self) -> None:
        """A step with this sequence is about to run, perhaps not the first."""

    def take(self, rows: Rows, drafts: Seq[int] = ()) -> bool:
        """Logits of the positions just computed; True when the sequence is finished.

        drafts: the tokens that all rows but the first were computed after, guesses that are not in
        the sequence. A row counts if the tokens appended so far are those guessed before it.
        """

    def draw(self) -> tuple[Draw, float] | None:
        """How the sequence's next tokens may be drawn without `take`, and how many; None: only
        `take` can go on."""

    def take_drawn(self, tokens: Seq[int]) -> bool:
        """Tokens that were drawn so, one after another; True when the sequence is finished, and
        those after its end are not in it."""

    def abort(self) -> None:
        """The request is no longer wanted."""

    def fail(self, error: Exception) -> None:
        """The request cannot go on."""


def checked(tokens: Seq[int]) -> Iterator[int]:
    """The tokens drawn by a backend, up to one that it could not draw: EdgeLLMError."""
    for token in tokens:
        if token < 0:
            raise EdgeLLMError("the logits are no numbers: the model file may be damaged")
        yield token


class OnlyTakes:
    """What a consumer has that must see logits."""

    def draw(self) -> tuple[Draw, float] | None:
        return None

    def take_drawn(self, tokens: Seq[int]) -> bool:
        raise RuntimeError("nothing was to be drawn")
