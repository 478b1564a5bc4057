"""Cuts a text where no merge can cross. Knows nothing of ranks, ids or spaces.

A merge makes a token, and the token holds the two characters that met where it was joined. So
between two characters that are neighbours in no token there is never a merge, and the text may be
cut there and its pieces merged apart with the same result.
"""

import numpy as np
import numpy.typing as npt

_BITS = 22  # 4 MiB of flags; about 70,000 of them are set for a vocabulary of 262,144 tokens


class Cutter:
    """Remembers which characters are neighbours in some token, as flags by the hash of the pair.

    Two pairs may share a flag: that only leaves a text whole where it could have been cut.
    """

    def __init__(self, tokens: list[str]) -> None:
        # U+10FFFF between tokens: no real text holds it, and one that does is merely cut less.
        self._neighbours = np.zeros(1 << _BITS, np.bool_)
        self._neighbours[_pairs("\U0010ffff".join(tokens))] = True

    def cut(self, text: str) -> list[str]:
        """The pieces of the text, in order; joined they are the text."""
        if len(text) < 2:
            return [text] if text else []
        cuts = np.flatnonzero(~self._neighbours[_pairs(text)]) + 1
        bounds = [0, *cuts.tolist(), len(text)]
        return [text[start:end] for start, end in zip(bounds, bounds[1:], strict=False)]


def _pairs(text: str) -> npt.NDArray[np.uint32]:
    """The hash of each character and the one after it: uint32 (len(text) - 1,)."""
    characters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    mixed = characters[:-1] * np.uint32(0x9E3779B1) + characters[1:] * np.uint32(0x85EBCA77)
    hashed: npt.NDArray[np.uint32] = mixed >> np.uint32(32 - _BITS)
    return hashed
