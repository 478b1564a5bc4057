"""Reading safetensors files: names, types, shapes and mapped bytes. Knows no model.

Layout: the header's length (8 bytes, little-endian), the header as JSON, the data. The header maps
names to {"dtype", "shape", "data_offsets": [begin, end]}, offsets from the start of the data.
Source: the format's description in github.com/huggingface/safetensors. Every length is held
against what remains of the file before it is used.
"""

import json
import mmap
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError

_LENGTH = 8
_MOST = 100 << 20  # bytes of a header, as the format allows
_SIZES = {
    **{"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2, "U16": 2},
    **{"F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8},
}
_METADATA = "__metadata__"


@dataclass(frozen=True, eq=False)
class Stored:
    """A tensor of a file. shape: the last is the contiguous one. data: uint8, mapped."""

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]


def read_safetensors(path: Path) -> dict[str, Stored]:
    """The tensors of a file by name. GGUFError when it is damaged or something else."""
    try:
        with open(path, "rb") as stream:
            whole = np.frombuffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except FileNotFoundError:
        raise GGUFError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise GGUFError(f"{path}: cannot be opened: {error}") from None
    header, start = _header(path, whole)
    data = whole[start:]
    tensors = {
        name: _tensor(path, name, entry, data)
        for name, entry in header.items()
        if name != _METADATA
    }
    _check_extents(path, header, len(data))
    return tensors


def _header(path: Path, whole: npt.NDArray[np.uint8]) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(whole[:_LENGTH].tobytes(), "little")
    if len(whole) < _LENGTH or length > min(_MOST, len(whole) - _LENGTH):
        raise GGUFError(f"{path}: is no safetensors file, or damaged: its header leaves the file")
    end = _LENGTH + length
    try:
        header = json.loads(whole[_LENGTH:end].tobytes(), object_pairs_hook=_once)
    except _Twice as error:
        raise GGUFError(f"{path}: {error.args[0]!r} is in its header twice") from None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise GGUFError(f"{path}: is no safetensors file, or damaged: its header is not JSON")
    return header, end


class _Twice(Exception):
    """A name that an object has already."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _Twice(name)
        found[name] = value
    return found


def _tensor(path: Path, name: str, entry: Any, data: npt.NDArray[np.uint8]) -> Stored:
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, begin, end]
        sound = isinstance(dtype, str) and all(type(n) is int and n >= 0 for n in numbers)
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise GGUFError(f"{path}: tensor {name!r} has no dtype, shape and offsets: it is damaged")
    if dtype not in _SIZES:
        raise GGUFError(f"{path}: tensor {name!r} has the unknown dtype {dtype!r}")
    nbytes = prod(shape) * _SIZES[dtype]
    if not begin <= end <= len(data) or end - begin != nbytes:
        raise GGUFError(
            f"{path}: tensor {name!r} of {dtype} {shape} takes {nbytes} bytes and lies at "
            f"{begin} to {end} of {len(data)}: the file is damaged or incomplete"
        )
    return Stored(path, name, dtype, tuple(shape), data[begin:end])


def _check_extents(path: Path, header: dict[str, Any], size: int) -> None:
    """The tensors fill the data, one after another, as the format asks."""
    places = sorted(
        (entry["data_offsets"], name) for name, entry in header.items() if name != _METADATA
    )
    at = 0
    for (begin, end), name in places:
        if begin != at:
            raise GGUFError(f"{path}: tensor {name!r} begins at {begin}, expected {at}")
        at = end
    if at != size:
        raise GGUFError(f"{path}: has {size} bytes of data and its tensors take {at}")
