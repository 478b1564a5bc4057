"""An opened model file, whole or split: metadata by key, tensors by name, data as mapped bytes."""

import mmap
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader.checks import check_metadata
from edgellm.gguf_loader.part import Part, open_part
from edgellm.gguf_loader.reader import Budget, ByteOrder, quoted
from edgellm.gguf_loader.split import check_parts, part_paths
from edgellm.gguf_loader.strings import StringArray
from edgellm.gguf_loader.tensors import TensorInfo
from edgellm.gguf_loader.types import GGML_TYPES
from edgellm.gguf_loader.values import Value, describe

Array: TypeAlias = npt.NDArray[Any]


class GGUFFile:
    """A model file. Made by `open_gguf`; a context manager.

    path: what was opened. parts: all files of a split, in order, else the one.
    version, byte_order, alignment: as the first part has them.
    metadata: key -> int, float, bool, str, numpy array in native order (often a view of the file,
    not always aligned), StringArray, or a tuple for an array of arrays. Of a split: the first
    part's.
    tensors: name -> TensorInfo, in file order.
    """

    def __init__(self, path: Path, parts: tuple[Part, ...]) -> None:
        first = parts[0]
        self.path = path
        self.parts = tuple(part.path for part in parts)
        self.version = first.version
        self.byte_order: ByteOrder = first.byte_order
        self.alignment = first.alignment
        self.metadata: Mapping[str, Value] = MappingProxyType(first.metadata)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(
            {name: tensor for part in parts for name, tensor in part.tensors.items()}
        )
        self._entries = first.entries
        self._views = tuple(part.view for part in parts)
        self._maps = tuple(part.map for part in parts)

    @property
    def num_bytes(self) -> int:
        """What the tensors take, without metadata and padding."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @property
    def num_parameters(self) -> int:
        """The number of weights in all tensors."""
        return sum(tensor.num_elements for tensor in self.tensors.values())

    def data(self, name: str) -> npt.NDArray[np.uint8]:
        """The bytes of a tensor: uint8 (nbytes,), a read-only view of the mapped file.

        From a file in the other byte order, plain numbers come as a swapped copy, and block types
        raise GGUFError. So does a name that is not in `tensors`. ValueError after `close`.
        """
        if name not in self.tensors:
            raise GGUFError(f"{self.path}: there is no tensor {quoted(name)}")
        if not self._views:
            raise ValueError(f"{self.path} is closed")
        tensor = self.tensors[name]
        stored = self._views[tensor.part][tensor.offset : tensor.offset + tensor.nbytes]
        if self.byte_order == sys.byteorder:
            return stored
        kind = GGML_TYPES[tensor.type_id]
        if kind.block_size != 1:
            raise GGUFError(
                f"{self.path}: tensor {quoted(name)} is {kind.name} in a {self.byte_order}-endian "
                f"file, which this {sys.byteorder}-endian machine cannot read: convert the file"
            )
        swapped = np.ascontiguousarray(stored.reshape(-1, kind.type_size)[:, ::-1]).reshape(-1)
        swapped.flags.writeable = False
        return swapped

    def entry(self, key: str) -> bytes:
        """A key of `metadata` and its value as they lie in the file, for another file.

        GGUFError from a file in the other byte order; ValueError after `close`.
        """
        if not self._views:
            raise ValueError(f"{self.path} is closed")
        if self.byte_order != "little":
            raise GGUFError(
                f"{self.path}: is {self.byte_order}-endian, and files are written as "
                "little-endian: convert it first"
            )
        return self._views[0][slice(*self._entries[key])].tobytes()

    def read_exactly(self, name: str) -> None:
        """From here on a page of this tensor is read when it is touched, and no neighbour with it.

        Only advice, here and in `give_back`; nothing happens on systems that take none.
        """
        self._advise(name, "MADV_RANDOM")

    def give_back(self, name: str) -> None:
        """Takes the pages of a tensor out of the process's memory; they come again when touched."""
        self._advise(name, "MADV_DONTNEED")

    def give_back_metadata(self) -> None:
        """The same for all keys and their values."""
        begins = (tensor.offset for tensor in self.tensors.values() if tensor.part == 0)
        self._advise_pages(0, 0, min(begins, default=0), "MADV_DONTNEED")

    def _advise(self, name: str, advice: str) -> None:
        tensor = self.tensors[name]
        self._advise_pages(tensor.part, tensor.offset, tensor.offset + tensor.nbytes, advice)

    def _advise_pages(self, part: int, begin: int, end: int, advice: str) -> None:
        """What is told of the whole pages between two places of a part."""
        option = getattr(mmap, advice, None)
        begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
        end = end // mmap.PAGESIZE * mmap.PAGESIZE
        if option is not None and begin < end and self._maps:
            self._maps[part].madvise(option, begin, end - begin)

    def integer(self, key: str) -> int | None:
        """The integer at `key`, None when there is none; GGUFError when it is something else."""
        value = self.metadata.get(key)
        if value is None or _is_integer(value):
            return value
        raise self._unlike(key, value, "an integer")

    def number(self, key: str) -> float | None:
        """The integer or float at `key` as a float; None and errors as for `integer`."""
        value = self.metadata.get(key)
        if value is None or _is_number(value):
            return None if value is None else float(value)
        raise self._unlike(key, value, "a number")

    def string(self, key: str) -> str | None:
        """The string at `key`; None and errors as for `integer`."""
        value = self.metadata.get(key)
        if value is None or _is_string(value):
            return value
        raise self._unlike(key, value, "a string")

    def boolean(self, key: str) -> bool | None:
        """The bool at `key`; None and errors as for `integer`."""
        value = self.metadata.get(key)
        if value is None or _is_bool(value):
            return value
        raise self._unlike(key, value, "a bool")

    def strings(self, key: str) -> StringArray | None:
        """The array of strings at `key`; None and errors as for `integer`."""
        value = self.metadata.get(key)
        if value is None or _is_strings(value):
            return value
        raise self._unlike(key, value, "an array of strings")

    def integers(self, key: str) -> Array | None:
        """The array of integers, signed or not, at `key`; None and errors as for `integer`."""
        value = self.metadata.get(key)
        if value is None or _is_integers(value):
            return value
        raise self._unlike(key, value, "an array of integers")

    def numbers(self, key: str) -> Array | None:
        """The array of integers or floats at `key`; None and errors as for `integer`."""
        value = self.metadata.get(key)
        if value is None or _is_numbers(value):
            return value
        raise self._unlike(key, value, "an array of numbers")

    def _unlike(self, key: str, value: Value, expected: str) -> GGUFError:
        return GGUFError(
            f"{self.path}: key {quoted(key)} is {describe(value)}, expected {expected}"
        )

    def close(self) -> None:
        """Let go of the files. Arrays that were handed out stay valid; `data` does not."""
        self._views = ()
        self._maps = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_gguf(path: str | Path) -> GGUFFile:
    """Open a GGUF file, or the whole of a split model from any of its parts.

    Raises GGUFError when a file is missing, damaged or of a kind that cannot be read. The files
    must not be truncated or written while they are open: they are mapped, not read.
    """
    if not str(path):
        raise GGUFError("the path of the model file is empty")
    budget = Budget()
    paths = part_paths(Path(path))
    parts = tuple(open_part(part, number, budget) for number, part in enumerate(paths))
    check_parts(parts)
    check_metadata(parts[0].path, parts[0].metadata)
    return GGUFFile(Path(path), parts)


def _is_bool(value: Value) -> TypeGuard[bool]:
    return isinstance(value, bool)


def _is_integer(value: Value) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, float) or _is_integer(value)


def _is_string(value: Value) -> TypeGuard[str]:
    return isinstance(value, str)


def _is_strings(value: Value) -> TypeGuard[StringArray]:
    return isinstance(value, StringArray)


def _is_integers(value: Value) -> TypeGuard[Array]:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"


def _is_numbers(value: Value) -> TypeGuard[Array]:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iuf"
