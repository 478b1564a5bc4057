"""Weights that are scale * (code - zero), with scales and zeros for groups of columns.

Blocks of GGUF hold them as they are where a group is a multiple of 32 columns:

    Q4_0  when every code - zero is in -8..7: without loss where scales are halves
    Q4_1  other codes of up to 4 bits: the minimum -scale * zero becomes a half, which moves all
          weights of a block by at most 1/128 of a step; without loss where it is one already
    Q8_0  8 bits with a zero of 128: without loss where scales are halves

Other groups are decoded to F16.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.convert.packings.packed import numbers, origin, shaped
from edgellm.convert.safetensors import Stored
from edgellm.convert.weight import Blocks, Indices, Values, Weight, from_floats
from edgellm.errors import GGUFError, RequestError

Codes = npt.NDArray[np.uint8]

BLOCK = 32


@dataclass(frozen=True, eq=False)
class Grid:
    """A matrix (rows, columns) of codes of `bits`. codes: uint8 (indices, columns) of rows.
    scales, zeros: (indices, groups) of rows. groups: the group of each column."""

    origin: str
    shape: tuple[int, int]
    bits: int
    codes: Callable[[Indices], Codes]
    scales: Callable[[Indices], Values]
    zeros: "Zeros"
    groups: Indices


class Zeros:
    """The zeros of rows (rows, groups), as one number where they are all the same."""

    def __init__(self, codes: npt.NDArray[np.integer[Any]]) -> None:
        self.low, self.top = int(codes.min()), int(codes.max())
        shape = (1, 1) if self.low == self.top else codes.shape
        self._codes = np.ascontiguousarray(codes[: shape[0], : shape[1]], np.uint8)
        self._groups = codes.shape[1]

    def __call__(self, rows: Indices) -> npt.NDArray[np.int32]:
        """int32 (indices, groups)."""
        if self._codes.size == 1:
            return np.full((len(rows), self._groups), self.low, np.int32)
        return self._codes[rows].astype(np.int32)


@dataclass(frozen=True, eq=False)
class Companions:
    """What lies beside a matrix of codes. scales: (groups, rows). zeros: (groups, words) of int32.
    groups: of columns, None for runs of one length."""

    scales: Stored
    zeros: Stored
    groups: Indices | None


def by_columns(
    stored: Stored,
    shape: tuple[int, int],
    bits: int,
    codes: Callable[[Indices], Codes],
    zeros: Callable[[npt.NDArray[np.int32]], npt.NDArray[np.integer[Any]]],
    beside: Companions,
) -> Weight:
    """A matrix (rows, columns) that is packed along its input, with scales for groups of it.

    zeros: (groups, words) -> (groups, rows). GGUFError where the sizes do not fit.
    """
    rows, columns = shape
    count = beside.scales.shape[0] if beside.scales.shape else 0
    shaped(beside.scales, (count, rows))
    if not count or (beside.groups is None and columns % count):
        raise GGUFError(f"{origin(beside.scales)} has {count} groups for {columns} columns")
    words = numbers(shaped(beside.zeros, (count, rows * bits // 32), ("I32",)))
    groups = beside.groups
    if groups is None:
        groups = np.arange(columns) // (columns // count)
    if groups.min() < 0 or groups.max() >= count:
        raise GGUFError(
            f"{origin(stored)}: columns are of groups up to {groups.max()}, and scales are there "
            f"for {count}"
        )
    factors = numbers(beside.scales)
    return weight_of(
        Grid(
            origin(stored),
            shape,
            bits,
            codes,
            lambda indices: np.asarray(factors[:, indices].T, np.float32),
            Zeros(np.asarray(zeros(words)).T),
            groups,
        )
    )


def bit_fields(words: npt.NDArray[np.int32], bits: int, count: int) -> Codes:
    """int32 (n, words) -> the first `count` fields of `bits` of each row, low bits first."""
    octets = np.ascontiguousarray(words, "<i4").view(np.uint8)
    if 8 % bits == 0:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        fields = octets[..., None] >> shifts & np.uint8((1 << bits) - 1)
        return fields.reshape(len(words), -1)[:, :count]
    flat = np.unpackbits(octets, axis=1, bitorder="little")[:, : count * bits]
    powers = np.uint8(1) << np.arange(bits, dtype=np.uint8)
    codes: Codes = (flat.reshape(len(words), count, bits) * powers).sum(-1, dtype=np.uint8)
    return codes


def weight_of(grid: Grid) -> Weight:
    """The matrix in the type of the table above that fits it."""
    rows, columns = grid.shape
    if columns % BLOCK == 0:
        by_block = grid.groups.reshape(-1, BLOCK)
        if (by_block == by_block[:, :1]).all():
            top = (1 << grid.bits) - 1
            if grid.bits <= 4 and grid.zeros.top <= 8 and top - grid.zeros.low <= 7:
                return _blocks(grid, "Q4_0", _q4_0)
            if grid.bits <= 4:
                return _blocks(grid, "Q4_1", _q4_1)
            if grid.bits == 8 and grid.zeros.low == grid.zeros.top == 128:
                return _blocks(grid, "Q8_0", _q8_0)
    return from_floats(grid.origin, grid.shape, "F16", lambda indices: _decoded(grid, indices))


def _decoded(grid: Grid, indices: Indices) -> Values:
    steps = grid.codes(indices).astype(np.float32)
    steps -= grid.zeros(indices)[:, grid.groups]
    steps *= grid.scales(indices)[:, grid.groups]
    return steps


def _blocks(
    grid: Grid,
    type_name: str,
    pack: Callable[[str, Codes, Values, npt.NDArray[np.int32]], list[Blocks]],
) -> Weight:
    chosen = grid.groups[::BLOCK]

    def read(indices: Indices) -> Blocks:
        codes = grid.codes(indices).reshape(len(indices), -1, BLOCK)
        scales, zeros = grid.scales(indices)[:, chosen], grid.zeros(indices)[:, chosen]
        return np.concatenate(pack(grid.origin, codes, scales, zeros), -1).reshape(len(indices), -1)

    return Weight(grid.origin, grid.shape, type_name, type_name, read)


def _q4_0(origin: str, codes: Codes, scales: Values, zeros: npt.NDArray[np.int32]) -> list[Blocks]:
    shifted = codes + (8 - zeros[..., None]).astype(np.uint8)  # wraps below 0, and back
    return [_half(origin, scales), _nibbles(shifted)]


def _q4_1(origin: str, codes: Codes, scales: Values, zeros: npt.NDArray[np.int32]) -> list[Blocks]:
    return [_half(origin, scales), _half(origin, -scales * zeros), _nibbles(codes)]


def _q8_0(origin: str, codes: Codes, scales: Values, zeros: npt.NDArray[np.int32]) -> list[Blocks]:
    return [_half(origin, scales), codes ^ np.uint8(0x80)]


def _nibbles(codes: Codes) -> Blocks:
    return codes[..., :16] | codes[..., 16:] << np.uint8(4)


def _half(origin: str, values: Values) -> Blocks:
    with np.errstate(over="ignore"):
        halves = values.astype("<f2")
    if not np.isfinite(halves).all():
        raise RequestError(f"{origin}: a scale does not fit a half: ask for BF16 or F32", "type")
    return halves[..., None].view(np.uint8)
