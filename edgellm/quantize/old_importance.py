"""Importance matrices as llama.cpp wrote them before 2025: files of its own, mostly named .dat.

Little-endian: a count of entries; for each the length of its name, the name, a number of calls, a
count of floats and those, which are means of squares times calls, experts one after another; then,
in later files, how many chunks were read and the length and name of the text. All numbers are
int32. Knows nothing of models, and so not how many experts there are.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class OldImportance:
    """means: of squared inputs by weight name, (1, experts * columns). dataset: "" if unknown."""

    means: dict[str, Array]
    dataset: str
    chunks: int


def read_old_importance(path: Path) -> OldImportance:
    """GGUFError when the file is something else, cut short, or holds what cannot be."""
    try:
        with path.open("rb") as stream:
            return _read(_Cursor(path, stream, path.stat().st_size))
    except OSError as error:
        raise GGUFError(f"{path}: cannot be read: {error.strerror or error}") from None


def _read(cursor: "_Cursor") -> OldImportance:
    means = {}
    for _ in range(cursor.count("a number of entries", 1)):
        name = cursor.text("a name")
        calls = max(1, cursor.count(f"calls of {name}"))
        values = cursor.floats(cursor.count(f"columns of {name}", 1))
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise cursor.wrong(f"{name} holds numbers that are negative or not finite")
        means[name] = (values / np.float32(calls))[None]
    if not cursor.left:
        return OldImportance(means, "", 0)
    chunks = cursor.count("chunks")
    return OldImportance(means, cursor.text("a text"), chunks)


@dataclass
class _Cursor:
    path: Path
    stream: BinaryIO
    left: int  # bytes

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise self.wrong(f"{size:,} bytes are told where {self.left:,} are left")
        self.left -= size
        return self.stream.read(size)

    def count(self, what: str, least: int = 0) -> int:
        found: int = struct.unpack("<i", self.take(4))[0]
        if found < least:
            raise self.wrong(f"{what} is {found}, expected {least} or more")
        return found

    def text(self, what: str) -> str:
        try:
            return self.take(self.count(f"the length of {what}")).decode()
        except UnicodeDecodeError:
            raise self.wrong(f"{what} is no text") from None

    def floats(self, size: int) -> Array:
        return np.frombuffer(self.take(4 * size), "<f4").astype(np.float32)

    def wrong(self, why: str) -> GGUFError:
        return GGUFError(
            f"{self.path}: is no importance matrix ({why}): expected a GGUF file whose "
            "general.type is imatrix, or a .dat file of llama.cpp"
        )
