"""Cuts a text where no merge can cross. Knows nothing of ranks, ids or spaces.

A merge makes a token, and the token holds the two characters that met where it was joined. So
between two characters that are neighbours in no token there is never a merge, and the text may be
cut there and its pieces merged apart with the same result.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_BITS = 22  # of 512 KiB of flags; about 70,000 of them are set for a vocabulary of 262,144 tokens


class Cutter:
    """Remembers which characters are neighbours in some token, as flags by the hash of the pair.

    Two pairs may share a flag: that only leaves a text whole where it could have been cut.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        """tokens: one or many in a text, with a character between them that is in no text; one
        that has it is merely cut less."""
        neighbours = np.zeros(1 << _BITS, np.bool_)
        for text in tokens:
            neighbours[_pairs(text)] = True
        self._neighbours = np.packbits(neighbours, bitorder="little")

    def cut(self, text: str) -> list[str]:
        """The pieces of the text, in order; joined they are the text."""
        if len(text) < 2:
            return [text] if text else []
        pairs = _pairs(text)
        flags = self._neighbours[pairs >> np.uint32(3)] >> (pairs & np.uint32(7)).astype(np.uint8)
        cuts = np.flatnonzero(flags & 1 == 0) + 1
        bounds = [0, *cuts.tolist(), len(text)]
        return [text[start:end] for start, end in zip(bounds, bounds[1:], strict=False)]


def _pairs(text: str) -> npt.NDArray[np.uint32]:
    """The hash of each character and the one after it: uint32 (len(text) - 1,)."""
    characters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    mixed = characters[:-1] * np.uint32(0x9E3779B1) + characters[1:] * np.uint32(0x85EBCA77)
    hashed: npt.NDArray[np.uint32] = mixed >> np.uint32(32 - _BITS)
    return hashed
