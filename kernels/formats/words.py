"""Eight weights at a time: int64 words that hold one weight a byte, the first one lowest.

Grid formats look whole rows up and change all eight signs in two operations; a compiler turns
`store8` into one store. The arithmetic never carries from byte to byte, see each function.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]


class Table:
    """A read-only array made on first use. A compiler takes `array` in its place."""

    def __init__(self, make: Callable[[], Words]) -> None:
        self._make = make

    @cached_property
    def array(self) -> Words:
        """The whole table."""
        return self._make()

    def __getitem__(self, index: int) -> int:
        return int(self.array[index])


def pack(rows: npt.NDArray[Any]) -> Words:
    """Integers (n, 8) or (n, 4) in int8 or uint8 range -> n words, the upper half 0 for fours."""
    as_bytes = rows.astype(np.int16).astype(np.uint8)
    kind = "<i8" if rows.shape[1] == 8 else "<u4"
    return as_bytes.view(kind)[:, 0].astype(np.int64)


def bits_of_bytes(zero: int, one: int) -> Words:
    """256 words: byte k of word b is `one` where bit k of b is set, else `zero`."""
    bits = np.arange(256)[:, None] >> np.arange(8) & 1
    return pack(np.where(bits == 1, one, zero))


def store8(q: Any, start: int, word: int) -> None:
    """The eight bytes of `word` to q[start] and up."""
    q[start] = (word & 255 ^ 128) - 128
    q[start + 1] = (word >> 8 & 255 ^ 128) - 128
    q[start + 2] = (word >> 16 & 255 ^ 128) - 128
    q[start + 3] = (word >> 24 & 255 ^ 128) - 128
    q[start + 4] = (word >> 32 & 255 ^ 128) - 128
    q[start + 5] = (word >> 40 & 255 ^ 128) - 128
    q[start + 6] = (word >> 48 & 255 ^ 128) - 128
    q[start + 7] = (word >> 56 & 255 ^ 128) - 128


def negate8(word: int, mask: int) -> int:
    """`word`, all bytes of which are 1..127, negated where the byte of `mask` is 255 and not 0.

    -x is the complement of x plus 1, which cannot carry because the complement is at most 254.
    """
    return (word ^ mask) + (mask & 0x0101010101010101)
