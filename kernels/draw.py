"""How a backend may draw tokens by itself, to go on with them at once. Data only.

Knows nothing of samplers' names beyond these, nor of sequences.
"""

from dataclasses import dataclass
from typing import Literal, NoReturn

Filter = Literal["top_p", "min_p", "temperature"]

MOST_SOUGHT = 128  # candidates of a row
MOST_BANNED = 16
MOST_FILTERS = 4


@dataclass(frozen=True)
class Draw:
    """The choice of one sequence's tokens, always the best of equals with the lower id.

    Of a row's logits the `sought` largest are looked at; those `banned` are left out, and the
    `kept` best of the others remain. 1 takes the best. Else the filters drop some of them in turn,
    never the first `min_keep`: top_p leaves the fewest that hold its share of the probability,
    min_p those whose logits reach that far below the best one (its number is a logarithm),
    temperature divides distances from the best one. One of the rest is drawn: where in their
    running sum of probabilities a number in [0, 1) lies, which Philox4x32-10 makes of `seed`,
    `sample_index` and the position of the token.
    """

    sought: int = 1
    kept: int = 1
    banned: tuple[int, ...] = ()
    filters: tuple[tuple[Filter, float], ...] = ()
    min_keep: int = 1
    seed: int = 0
    sample_index: int = 0


@dataclass(frozen=True)
class Draws:
    """For each sequence of a batch how its tokens are drawn, and how many of each."""

    each: tuple[Draw, ...]
    steps: int


class DrawsNone:
    """What an executable has that gives logits and leaves the choice of tokens to others."""

    can_draw = False

    def draw(self, batch: object, draws: Draws) -> NoReturn:
        raise NotImplementedError("this backend draws no tokens")
