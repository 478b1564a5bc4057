"""Writing GGUF files: whole, or not at all. Knows no key by name.

    write_gguf(path, [entry("general.architecture", "llama")], [NewTensor(...)], chunks)

Version 3, little-endian. Nobody sees half of a file, and a process that has mapped an older one of
the name keeps that one.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader.header import MAGIC
from edgellm.gguf_loader.reader import quoted
from edgellm.gguf_loader.types import GGML_TYPES
from edgellm.new_file import new_file

_VERSION = 3
_ALIGNMENT = 32
_BOOL, _STRING, _ARRAY = 7, 8, 9
_DTYPES = {
    "uint8": 0,
    "int8": 1,
    "uint16": 2,
    "int16": 3,
    "uint32": 4,
    "int32": 5,
    "float32": 6,
    "bool": _BOOL,
    "uint64": 10,
    "int64": 11,
    "float64": 12,
}

# Plain integers are stored as uint32 and floats as float32, as most keys want; numpy's scalars
# and arrays have their own types.
NewValue: TypeAlias = "bool | int | float | str | npt.NDArray[Any] | np.generic | Sequence[str]"
Chunks = Iterable[bytes | npt.NDArray[np.uint8]]  # the pieces of one tensor


@dataclass(frozen=True)
class NewTensor:
    """A tensor to be written. shape: in ggml order, as in TensorInfo."""

    name: str
    shape: tuple[int, ...]
    type_id: int

    @property
    def nbytes(self) -> int:
        kind = GGML_TYPES[self.type_id]
        return prod(self.shape) // kind.block_size * kind.type_size


def entry(key: str, value: NewValue) -> bytes:
    """A key with its value as a file has them. GGUFError for a value that no file can hold."""
    try:
        return _text(key) + _value(value)
    except (OverflowError, UnicodeEncodeError) as error:
        raise GGUFError(f"the value of {quoted(key)} cannot be written: {error}") from None


def write_gguf(
    path: Path,
    entries: Sequence[bytes],
    tensors: Sequence[NewTensor],
    data: Iterable[Chunks],
    alignment: int = _ALIGNMENT,
    replace: bool = False,
) -> int:
    """Writes a file and returns its size.

    entries: keys with values, from `entry` or `GGUFFile.entry`. data: for each tensor its bytes,
    in pieces, asked for when they are written. replace: whether a file that is there gives way.
    GGUFError when one is there and does not, or the disk says no.
    """
    check_free(path, replace)
    try:
        with new_file(path) as stream:
            _write(stream, entries, tensors, data, alignment)
            check_free(path, replace)  # still, after all that time
            return stream.tell()
    except OSError as error:
        raise GGUFError(f"{path}: cannot be written: {error.strerror or error}") from error


def write_header(
    path: Path, entries: Sequence[bytes], tensors: Sequence[NewTensor], known: Mapping[str, bytes]
) -> None:
    """Writes a file whose tensors are zeros that take no room on most disks, but for those that
    are known by name: to see what a loader makes of it. GGUFError when the disk says no.
    """
    try:
        with open(path, "wb") as stream:
            end = _write_table(stream, entries, tensors, _ALIGNMENT)
            start, offset = stream.tell(), 0
            for tensor in tensors:
                if tensor.name in known:
                    stream.seek(start + offset)
                    stream.write(known[tensor.name])
                offset += tensor.nbytes + -tensor.nbytes % _ALIGNMENT
            stream.truncate(start + end)
    except OSError as error:
        raise GGUFError(f"{path}: cannot be written: {error.strerror or error}") from error


def check_free(path: Path, replace: bool = False) -> None:
    """GGUFError when something is there and does not give way, or there is no folder for it."""
    if path.is_dir():
        raise GGUFError(f"{path}: is a folder: name a file in it")
    if not replace and path.exists():
        raise GGUFError(f"{path}: there is a file of this name already: delete it or --force")
    if not path.parent.is_dir():
        raise GGUFError(f"{path}: cannot be written: there is no folder {path.parent}")


def _write(
    stream: BinaryIO,
    entries: Sequence[bytes],
    tensors: Sequence[NewTensor],
    data: Iterable[Chunks],
    alignment: int,
) -> None:
    _write_table(stream, entries, tensors, alignment)
    for tensor, chunks in zip(tensors, data, strict=True):
        written = 0
        try:
            for chunk in chunks:
                written += stream.write(chunk.data if isinstance(chunk, np.ndarray) else chunk)
            stream.write(bytes(-written % alignment))
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} (in {tensor.name})") from error
        if written != tensor.nbytes:
            raise ValueError(f"{tensor.name} has {tensor.nbytes} bytes and {written} were given")


def _write_table(
    stream: BinaryIO, entries: Sequence[bytes], tensors: Sequence[NewTensor], alignment: int
) -> int:
    """All that comes before the data; gives the bytes that the data take."""
    stream.write(MAGIC + struct.pack("<IQQ", _VERSION, len(tensors), len(entries)))
    for one in entries:
        stream.write(one)
    offset = 0
    for tensor in tensors:
        shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        stream.write(_text(tensor.name) + shape + struct.pack("<IQ", tensor.type_id, offset))
        offset += tensor.nbytes + -tensor.nbytes % alignment
    stream.write(bytes(-stream.tell() % alignment))
    return offset


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(raw)) + raw


def _value(value: NewValue) -> bytes:
    match value:
        case bool():
            return struct.pack("<IB", _BOOL, value)
        case str():
            return struct.pack("<I", _STRING) + _text(value)
        case np.ndarray():
            element = _DTYPES[value.dtype.name]
            stored = value.astype(value.dtype.newbyteorder("<"))
            return struct.pack("<IIQ", _ARRAY, element, len(value)) + stored.tobytes()
        case np.generic():
            stored = np.asarray(value)
            little = stored.astype(stored.dtype.newbyteorder("<"))
            return struct.pack("<I", _DTYPES[stored.dtype.name]) + little.tobytes()
        case int():
            return _value(np.uint32(value))
        case float():
            return _value(np.float32(value))
    texts = b"".join(map(_text, value))
    return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + texts
