"""Strings of a file by their text, without a Python object for each. Knows nothing of tokens.

A string's hash is its first bytes as a little-endian number, times 2^64, modulo a number that no
file can know: numpy reckons it for all strings at once, and Python for one in a few operations.
Strings whose hashes begin alike are neighbours in a table, and are told apart by their bytes.
"""

import os

import numpy as np
import numpy.typing as npt

from edgellm.gguf_loader import StringArray

_HASHED = 128  # bytes of a string
_BATCH = 1 << 13  # strings at a time: what is made for them stays in the processor's caches
_MANY = 1 << 15  # finds; they have taken about as long as making a dictionary does
_MODULUS = int.from_bytes(os.urandom(4), "little") | 0x80000001  # odd, so that every byte counts
_SHIFT = 64  # bits, without which the hashes of short strings would be small numbers
_WEIGHTS = np.array([pow(2, _SHIFT + 8 * i, _MODULUS) for i in range(_HASHED)], np.uint64)

Hashes = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


class StringIndex:
    """Where each string of an array is in it. Twelve bytes for each string.

    After many finds it makes a dictionary, which finds ten times as fast and takes ten times the
    memory: for whoever has a short text to look at, that would be most of the work.
    """

    def __init__(self, strings: StringArray) -> None:
        self._strings = strings
        hashes = _hashes(strings.buffer, strings.offsets, strings.lengths)
        # By hash, and of equal ones by place: numbers of both sort faster than places by hashes.
        both = np.sort(hashes.astype(np.uint64) << 32 | np.arange(len(hashes), dtype=np.uint64))
        self._hashes: Hashes = (both >> 32).astype(np.uint32)
        self._order = both.astype(np.uint32)
        bits = min(len(strings).bit_length(), 31)
        self._shift = 32 - bits
        edges = np.arange((1 << bits) + 1, dtype=np.uint64) << np.uint64(self._shift)
        self._begins = np.searchsorted(self._hashes, edges).astype(np.int32)
        self._finds = 0
        self._dictionary: dict[str, int] | None = None
        # Views whose elements are Python's numbers: twice as fast to read one by one.
        self._tables = self._begins.data, self._hashes.data, self._order.data

    def find(self, text: str) -> int | None:
        """The place of a string in the array, of equal ones the first; None where there is none."""
        if self._dictionary is not None:
            return self._dictionary.get(text)
        self._finds += 1
        if self._finds >= _MANY:  # several threads may, to the same end
            places = range(len(self._strings) - 1, -1, -1)  # backwards, so that the first counts
            self._dictionary = dict(zip(reversed(list(self._strings)), places, strict=True))
        raw = text.encode()
        wanted = (int.from_bytes(raw[:_HASHED], "little") << _SHIFT) % _MODULUS
        begins, hashes, order = self._tables
        bucket = wanted >> self._shift
        for at in range(begins[bucket], begins[bucket + 1]):
            if hashes[at] == wanted and self._strings.raw(order[at]) == raw:
                return order[at]
        return None

    def first_repeat(self) -> tuple[int, int] | None:
        """Two places of the same string, if there is one."""
        alike = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        seen: dict[bytes, int] = {}
        for place in sorted({*self._order[alike].tolist(), *self._order[alike + 1].tolist()}):
            first = seen.setdefault(self._strings.raw(place), place)
            if first != place:
                return first, place
        return None

    def may_hold(self, buffer: npt.NDArray[np.uint8], offsets: Places, lengths: Places) -> bool:
        """Whether all strings at these places of a buffer are in the array, by their hashes alone.

        One that is not is taken for one that is with a chance of the number of strings in 2^32.
        """
        wanted = np.sort(_hashes(buffer, offsets, lengths))  # sorted ones are found faster
        at = np.searchsorted(self._hashes, wanted)
        return at.max(initial=-1) < len(self._hashes) and bool((self._hashes[at] == wanted).all())


def _hashes(buffer: npt.NDArray[np.uint8], offsets: Places, lengths: Places) -> Hashes:
    values = np.empty(len(offsets), np.uint32)
    for first in range(0, len(offsets), _BATCH):
        part = slice(first, first + _BATCH)
        sizes = np.minimum(lengths[part], _HASHED)
        ends = np.cumsum(sizes)
        begins = ends - sizes
        place = np.arange(ends[-1])
        letters = buffer[place + np.repeat(offsets[part] - begins, sizes)]
        weights = _WEIGHTS[place - np.repeat(begins, sizes)]
        sums = np.zeros(len(place) + 1, np.uint64)
        np.cumsum(letters * weights, out=sums[1:])
        values[part] = (sums[ends] - sums[begins]) % np.uint64(_MODULUS)
    return values
