"""A bounds-checked cursor over one mapped file. Knows the byte order, but no GGUF structure."""

import mmap
import struct
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError

ByteOrder = Literal["little", "big"]

# What opening may allocate for names, values and tables, by a generous estimate of each object.
# A vocabulary of 262,144 tokens takes 2 MiB of it, a model of 2,000 tensors another 2 MiB.
MEMORY_LIMIT = 40 << 20


class Budget:
    """The memory that is left for one model's metadata, shared by all parts of a split."""

    def __init__(self) -> None:
        self.left = MEMORY_LIMIT


def quoted(name: str) -> str:
    """A name from a file for a message: control characters escaped, long names cut."""
    return repr(name if len(name) <= 100 else name[:97] + "...")


class Reader:
    """Reads forward from `position`. Every method raises GGUFError rather than run past the end.

    `what` in the methods says in words what is being read, for the message.
    """

    def __init__(self, path: Path, view: npt.NDArray[np.uint8], map_: mmap.mmap, budget: Budget):
        self.path = path
        self.view = view
        self.map = map_
        self.size = len(view)
        self.position = 0
        self.byte_order: ByteOrder = "little"
        self._budget = budget

    def error(self, message: str) -> GGUFError:
        return GGUFError(f"{self.path}: {message}")

    @property
    def prefix(self) -> str:
        """The byte order as struct and numpy write it."""
        return "<" if self.byte_order == "little" else ">"

    @property
    def remaining(self) -> int:
        return self.size - self.position

    def charge(self, nbytes: int, what: str) -> None:
        """Take `nbytes` of the memory budget before they are allocated."""
        if nbytes > self._budget.left:
            raise self.error(
                f"{what} would take more memory than is allowed for metadata "
                f"({MEMORY_LIMIT >> 20} MiB in all)"
            )
        self._budget.left -= nbytes

    def need(self, nbytes: int, what: str) -> None:
        """Check that `nbytes` remain."""
        if nbytes > self.remaining:
            raise self.error(
                f"{what} needs {nbytes} bytes at offset {self.position} and the file has "
                f"{self.remaining} left: it is damaged or incomplete"
            )

    def number(self, code: str, what: str) -> int | float:
        """One number with the struct code `code`."""
        layout = self.prefix + code
        size = struct.calcsize(layout)
        self.need(size, what)
        value: int | float = struct.unpack_from(layout, self.map, self.position)[0]
        self.position += size
        return value

    def integer(self, code: str, what: str) -> int:
        return int(self.number(code, what))

    def count(self, smallest: int, what: str) -> int:
        """A uint64 count of things that take at least `smallest` bytes each."""
        value = self.integer("Q", f"the number of {what}")
        if value * smallest > self.remaining:
            raise self.error(
                f"the file claims {value} {what} and has {self.remaining} bytes left"
                f"{self._swapped_hint(value, smallest)}"
            )
        return value

    def _swapped_hint(self, value: int, smallest: int) -> str:
        swapped = int.from_bytes(value.to_bytes(8, "little"), "big")
        if swapped * smallest > self.remaining:
            return ": it is damaged or incomplete"
        return f": it is damaged, or not {self.byte_order}-endian as its version number says"

    def string(self, limit: int, what: str) -> bytes:
        """A string: uint64 length, then at most `limit` bytes."""
        length = self.integer("Q", f"the length of {what}")
        self.need(length, what)
        if length > limit:
            raise self.error(f"{what} has {length} bytes, expected at most {limit}")
        self.charge(64 + 4 * length, what)  # Python may store up to 4 bytes per character
        raw = self.map[self.position : self.position + length]
        self.position += length
        return raw

    def name(self, what: str) -> str:
        """The name of a key or tensor: 1 to 65535 bytes of UTF-8 (the limit of the GGUF spec)."""
        raw = self.string(0xFFFF, what)
        if not raw:
            raise self.error(f"{what} is empty")
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.error(f"{what} is not UTF-8: {raw[:100]!r}") from None
