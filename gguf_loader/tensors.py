"""The table of tensors: names, shapes, types and where the data lies. Reads no tensor data."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from edgellm.gguf_loader.reader import Reader, quoted
from edgellm.gguf_loader.types import GGML_TYPES, refusal

_MAX_DIMENSIONS = 4
_MAX_DIMENSION = 2**31 - 1  # rows and columns are 32-bit integers in every kernel


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor.

    shape: in ggml order, shape[0] is the contiguous one. nbytes: of the data as it is stored.
    offset: in bytes from the start of the part's file; part: the number of that file from 0.
    """

    name: str
    shape: tuple[int, ...]
    type_id: int
    nbytes: int
    offset: int
    part: int

    @property
    def type_name(self) -> str:
        return GGML_TYPES[self.type_id].name

    @property
    def columns(self) -> int:
        return self.shape[0]

    @property
    def rows(self) -> int:
        return prod(self.shape[1:])

    @property
    def num_elements(self) -> int:
        return prod(self.shape)


def read_tensors(reader: Reader, count: int, alignment: int, part: int) -> dict[str, TensorInfo]:
    """The table of `count` tensors at the reader's position, in file order, checked.

    The reader is left at the start of the tensor data.
    """
    tensors: dict[str, TensorInfo] = {}
    for number in range(count):
        tensor = _read_tensor(reader, number, alignment, part)
        if tensor.name in tensors:
            raise reader.error(f"the tensor {quoted(tensor.name)} is there twice")
        tensors[tensor.name] = tensor
    reader.position += -reader.position % alignment
    for name, tensor in tensors.items():
        tensors[name] = replace(tensor, offset=reader.position + tensor.offset)
    _check_extents(reader, tensors.values())
    return tensors


def _read_tensor(reader: Reader, number: int, alignment: int, part: int) -> TensorInfo:
    name = reader.name(f"the name of tensor {number + 1}")
    what = f"tensor {quoted(name)}"
    reader.charge(768, what)
    shape = _read_shape(reader, what)
    type_id = reader.integer("I", f"the type of {what}")
    if type_id not in GGML_TYPES:
        raise reader.error(f"{what} {refusal(type_id)}")
    kind = GGML_TYPES[type_id]
    if shape[0] % kind.block_size:
        raise reader.error(
            f"{what} has rows of {shape[0]} weights, expected a multiple of {kind.block_size} "
            f"for {kind.name}"
        )
    offset = reader.integer("Q", f"the offset of {what}")
    if offset % alignment:
        raise reader.error(f"{what} is at offset {offset}, expected a multiple of {alignment}")
    nbytes = prod(shape) // kind.block_size * kind.type_size
    return TensorInfo(name, shape, type_id, nbytes, offset, part)


def _read_shape(reader: Reader, what: str) -> tuple[int, ...]:
    num_dimensions = reader.integer("I", f"the number of dimensions of {what}")
    if num_dimensions > _MAX_DIMENSIONS:
        raise reader.error(f"{what} has {num_dimensions} dimensions, expected at most 4")
    shape = tuple(reader.integer("Q", f"the shape of {what}") for _ in range(num_dimensions))
    for dimension in shape:
        if not 1 <= dimension <= _MAX_DIMENSION:
            raise reader.error(
                f"{what} has a dimension of {dimension}, expected 1 to {_MAX_DIMENSION}"
            )
    return shape or (1,)  # ggml reads a scalar as one element


def _check_extents(reader: Reader, tensors: Collection[TensorInfo]) -> None:
    """Every tensor lies inside the file, and no two share a byte."""
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if tensor.offset < end:
            raise reader.error(f"the tensors {quoted(before)} and {quoted(tensor.name)} overlap")
        end, before = tensor.offset + tensor.nbytes, tensor.name
        if end > reader.size:
            raise reader.error(
                f"tensor {quoted(tensor.name)} ends at byte {end} and the file has {reader.size}: "
                "it is damaged or incomplete, fetch it again"
            )
