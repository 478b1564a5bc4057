"""One file: maps it and reads its header, metadata and tensor table. Knows nothing of splits."""

import mmap
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader.header import MAGIC, read_header
from edgellm.gguf_loader.reader import Budget, ByteOrder, Reader, quoted
from edgellm.gguf_loader.tensors import TensorInfo, read_tensors
from edgellm.gguf_loader.values import UINT32, Value, read_value, type_name

_ALIGNMENT = "general.alignment"
_DEFAULT_ALIGNMENT = 32
_MIN_ALIGNMENT = 8  # the GGUF specification asks for a multiple of 8
_MAX_ALIGNMENT = 2 << 20  # the largest memory page in common use; more is damage, not intent


@dataclass(frozen=True)
class Part:
    """One opened file. `view` is the whole file, uint8, read-only, of the map `map`.

    entries: where each key begins in the file and where its value ends.
    """

    path: Path
    map: mmap.mmap
    view: npt.NDArray[np.uint8]
    version: int
    byte_order: ByteOrder
    alignment: int
    metadata: dict[str, Value]
    entries: dict[str, tuple[int, int]]
    tensors: dict[str, TensorInfo]


def open_part(path: Path, number: int, budget: Budget) -> Part:
    """Open the file that is part `number` (from 0) of a model, and check all of its structure."""
    map_ = _map_file(path)
    reader = Reader(path, np.frombuffer(map_, np.uint8), map_, budget)
    header = read_header(reader)
    alignment = _DEFAULT_ALIGNMENT
    metadata: dict[str, Value] = {}
    entries: dict[str, tuple[int, int]] = {}
    for i in range(header.num_keys):
        start = reader.position
        key = reader.name(f"the name of key {i + 1}")
        reader.charge(512, f"key {quoted(key)}")
        if key in metadata:
            raise reader.error(f"the key {quoted(key)} is there twice")
        type_id = reader.integer("I", f"the type of key {quoted(key)}")
        metadata[key] = read_value(reader, key, type_id)
        entries[key] = (start, reader.position)
        if key == _ALIGNMENT:
            alignment = _checked_alignment(reader, type_id, metadata[key])
    tensors = read_tensors(reader, header.num_tensors, alignment, number)
    _check_nothing_joined(reader, tensors.values(), alignment)
    return Part(
        path,
        map_,
        reader.view,
        header.version,
        header.byte_order,
        alignment,
        metadata,
        entries,
        tensors,
    )


def _map_file(path: Path) -> mmap.mmap:
    """Map a regular file read-only. A pipe or device is refused before it is opened."""
    try:
        info = os.stat(path)
        if stat.S_ISDIR(info.st_mode):
            raise GGUFError(f"{path}: this is a folder, expected a GGUF file")
        if not stat.S_ISREG(info.st_mode):
            raise GGUFError(f"{path}: not a regular file, so it cannot be mapped")
        if info.st_size == 0:
            raise GGUFError(f"{path}: the file is empty")
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise GGUFError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path, or emptied meanwhile
        raise GGUFError(f"{quoted(str(path))}: cannot be opened: {error}") from None


def _checked_alignment(reader: Reader, type_id: int, value: Value) -> int:
    if type_id != UINT32 or not isinstance(value, int):
        raise reader.error(f"key '{_ALIGNMENT}' has the type {type_name(type_id)}, expected uint32")
    if value & (value - 1) or not _MIN_ALIGNMENT <= value <= _MAX_ALIGNMENT:
        raise reader.error(
            f"key '{_ALIGNMENT}' is {value}, expected a power of two from {_MIN_ALIGNMENT} "
            f"to {_MAX_ALIGNMENT}"
        )
    return value


def _check_nothing_joined(reader: Reader, tensors: Iterable[TensorInfo], alignment: int) -> None:
    """Another GGUF file right behind the data means that the parts of a split were joined."""
    end = max((t.offset + t.nbytes for t in tensors), default=reader.position)
    for start in (end, end + -end % alignment):
        if reader.map[start : start + len(MAGIC)] == MAGIC:
            raise reader.error(
                f"a second GGUF file begins at byte {start}: the parts of a split were joined; "
                "keep them as they were and open the first"
            )
