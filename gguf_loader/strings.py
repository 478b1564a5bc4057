"""Arrays of strings that stay in the file until one is asked for. Knows nothing of tokens."""

import mmap
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Self, overload

import numpy as np
import numpy.typing as npt

Ends = npt.NDArray[np.int64] | npt.NDArray[np.uint32]

_BATCH = 1 << 16  # strings walked at a time: bounds the memory of the list of offsets


class StringArray(Sequence[str]):
    """Strings that lie in a mapped file, each as a uint64 length and its bytes.

    `array[i]` makes one `str`; bytes that are not UTF-8 become surrogate escapes, so nothing is
    lost. Slices make a list. For work on all strings at once, without a Python object for each:

    buffer: uint8, a read-only view of the file from the first length to the end of the last string.
    offsets: int64 (n,), where each string's bytes begin in `buffer`.
    lengths: int64 (n,), in bytes: string i is `buffer[offsets[i] : offsets[i] + lengths[i]]`.
    """

    def __init__(self, buffer: npt.NDArray[np.uint8], ends: Ends) -> None:
        """ends: (n,), where each string ends in `buffer`; the next one's length is there."""
        self.buffer = buffer
        self._ends = ends
        self._bytes, self._places = buffer.data, ends.data  # faster to take one element of

    @classmethod
    def of(cls, strings: Iterable[bytes]) -> Self:
        """Strings that are in no file."""
        stored = [len(raw).to_bytes(8, sys.byteorder) + raw for raw in strings]
        ends = np.cumsum(np.array([len(one) for one in stored], np.int64))
        return cls(np.frombuffer(b"".join(stored), np.uint8), _narrow(ends))

    def copy(self) -> "StringArray":
        """The same strings in memory of their own."""
        return StringArray(self.buffer.copy(), self._ends)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        offsets = np.full(len(self._ends), 8, np.int64)
        offsets[1:] += self._ends[:-1]
        return offsets

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        lengths: npt.NDArray[np.int64] = self._ends - self.offsets
        return lengths

    def raw(self, i: int) -> bytes:
        """The bytes of string `i`."""
        if i < 0:
            i += len(self)
        if i < 0:
            raise IndexError(f"string {i} of {len(self)}")
        start = self._places[i - 1] + 8 if i else 8
        return self._bytes[start : self._places[i]].tobytes()

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [self[j] for j in range(len(self))[i]]
        return self.raw(i).decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        data = self.buffer.data
        start = 8
        for end in self._ends.tolist():
            yield str(data[start:end], "utf-8", "surrogateescape")
            start = end + 8

    def __repr__(self) -> str:
        return f"<StringArray of {len(self)}>"


def _narrow(ends: npt.NDArray[np.int64]) -> Ends:
    """The same in half of the memory, where they fit."""
    return ends.astype(np.uint32) if ends.max(initial=0) < 1 << 32 else ends


def walk(map_: mmap.mmap, start: int, count: int, prefix: str) -> Ends | None:
    """Where each of `count` strings ends, relative to `start`; None when they leave the file.

    This is the hot loop of opening a file: the only way to find what follows a string is to read
    its length. `unpack_from` checks the bounds, so the loop does not have to.
    """
    ends = np.empty(count, np.int64)
    length_at = struct.Struct(f"{prefix}Q").unpack_from
    size = len(map_)
    at = start
    for first in range(0, count, _BATCH):
        batch = min(_BATCH, count - first)
        try:
            found = [at := at + 8 + length_at(map_, at)[0] for _ in repeat(None, batch)]
        except (struct.error, OverflowError):
            return None
        if at > size:
            return None
        ends[first : first + batch] = found
    ends -= start
    return _narrow(ends)
