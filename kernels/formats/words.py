"""Eight bytes at a time: int64 words, the first byte lowest, often one weight a byte.

Formats that look up several weights at once build words and store them; a compiler turns `load8`
and `store8` into one instruction each. The arithmetic never carries from byte to byte.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]

_ONES = 0x0101010101010101
_TOP_BITS = 128 * _ONES - 2**64  # as a signed number, like every word


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


def load8(src: Any, start: int) -> int:
    """The word of src[start] and the seven bytes after it."""
    low = int(src[start]) | int(src[start + 1]) << 8 | int(src[start + 2]) << 16
    high = int(src[start + 4]) | int(src[start + 5]) << 8 | int(src[start + 6]) << 16
    return low | int(src[start + 3]) << 24 | (high | int(src[start + 7]) << 24) << 32


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


def low_nibbles(word: int) -> int:
    """The low four bits of every byte."""
    return word & 15 * _ONES


def high_nibbles(word: int) -> int:
    """The high four bits of every byte."""
    return word >> 4 & 15 * _ONES


def negate8(word: int, mask: int) -> int:
    """`word`, all bytes of which are 1..127, negated where the byte of `mask` is 255 and not 0.

    -x is the complement of x plus 1, which cannot carry because the complement is at most 254.
    """
    return (word ^ mask) + (mask & _ONES)


def subtract8(word: int, amount: int) -> int:
    """`word` less `amount` in every byte, where all bytes and `amount` are 0..127.

    Setting the top bits first keeps a borrow inside its byte; flipping them takes them off again.
    """
    return (word | _TOP_BITS) - amount * _ONES ^ _TOP_BITS
