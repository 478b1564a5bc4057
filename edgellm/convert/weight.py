"""Tensors on their way into a file: shapes, types and rows that are read when they are written.

A matrix has its rows in one of the registered formats, so that rows can be moved without being
decoded: quantised blocks stay what they are. A vector counts as a column: its numbers are rows.
Knows no names of models.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

import numpy as np
import numpy.typing as npt

from edgellm.convert.safetensors import Stored
from edgellm.errors import GGUFError
from edgellm.kernels.formats import by_name, dequantize_rows

Indices = npt.NDArray[np.intp]
Blocks = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float32]
Shape = tuple[int, ...]

FLOATS = ("F32", "F16", "BF16")
# Other numbers, which become F32: numpy's names.
_OTHERS = {
    **{"BOOL": "u1", "U8": "u1", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"},
    "F64": "<f8",
}
STRIP = 1 << 20  # numbers converted at a time


@dataclass(frozen=True, eq=False)
class Weight:
    """origin: where it comes from, for messages. shape: the last is the contiguous one. type: of
    the rows that `read` gives, uint8 (indices, bytes). natural: the type to write it in when none
    is asked for."""

    origin: str
    shape: Shape
    type: str
    natural: str
    read: Callable[[Indices], Blocks]

    @property
    def columns(self) -> int:
        return self.shape[-1] if len(self.shape) > 1 else 1

    @property
    def rows(self) -> int:
        return prod(self.shape) // max(1, self.columns)

    def floats(self, indices: Indices) -> Values:
        """Float32 (indices, columns)."""
        return dequantize_rows(by_name(self.type), self.read(indices))

    def wrong(self, what: str) -> GGUFError:
        return GGUFError(f"{self.origin} of shape {self.shape}: {what}")


def from_stored(stored: Stored) -> Weight:
    """A tensor of a file as it is; numbers that no matrix is made of become F32."""
    origin = f"{stored.path}: tensor {stored.name!r}"
    columns = stored.shape[-1] if len(stored.shape) > 1 else 1
    shape = stored.shape or (1,)
    if stored.dtype in FLOATS:
        width = columns * by_name(stored.dtype).type_size
        matrix = stored.data.reshape(-1, width)
        return Weight(origin, shape, stored.dtype, stored.dtype, lambda rows: matrix[rows])
    if stored.dtype not in _OTHERS:
        raise GGUFError(f"{origin} is {stored.dtype}, expected one of {', '.join(FLOATS)}")
    numbers = stored.data.view(_OTHERS[stored.dtype]).reshape(-1, columns)
    return from_floats(origin, shape, "F32", lambda rows: numbers[rows].astype(np.float32))


def from_floats(
    origin: str, shape: Shape, natural: str, read: Callable[[Indices], Values]
) -> Weight:
    """A tensor whose rows are computed: read gives float32 (indices, columns)."""

    def blocks(rows: Indices) -> Blocks:
        values = np.ascontiguousarray(read(rows), "<f4")
        return values.view(np.uint8).reshape(len(rows), 4 * values.shape[1])

    return Weight(origin, shape, "F32", natural, blocks)


def from_array(origin: str, values: npt.ArrayLike) -> Weight:
    """A small tensor made here."""
    array = np.asarray(values, np.float32)
    matrix = array.reshape(-1, array.shape[-1] if array.ndim > 1 else 1)
    return from_floats(origin, array.shape, "F32", lambda rows: matrix[rows])


def reordered(weight: Weight, order: Indices, shape: Shape | None = None) -> Weight:
    """Its rows `order`, in that order. shape: if it has more than rows and columns."""
    shape = shape or (len(order), *((weight.columns,) if len(weight.shape) > 1 else ()))
    return replace(weight, shape=shape, read=lambda rows: weight.read(order[rows]))


def columns_reordered(weight: Weight, order: Indices) -> Weight:
    """Its columns in that order; blocks of columns are decoded for it."""
    if len(order) != weight.columns:
        raise weight.wrong(f"expected {len(order)} columns")
    return from_floats(
        weight.origin, weight.shape, weight.natural, lambda rows: weight.floats(rows)[:, order]
    )


def part(weight: Weight, first: int, count: int) -> Weight:
    """`count` entries of the first axis."""
    if first + count > weight.shape[0]:
        raise weight.wrong(f"has no {first + count} entries, as config.json asks")
    each = weight.rows // weight.shape[0]
    order = np.arange(first * each, (first + count) * each)
    return reordered(weight, order, (count, *weight.shape[1:]))


def parts(weight: Weight, sizes: Sequence[int]) -> list[Weight]:
    """The first axis cut into `sizes`, which are all of it."""
    if sum(sizes) != weight.shape[0]:
        raise weight.wrong(f"expected {' + '.join(map(str, sizes))} rows by config.json")
    starts = np.cumsum([0, *sizes[:-1]])
    return [part(weight, int(first), size) for first, size in zip(starts, sizes, strict=True)]


def padded(weight: Weight, rows: int) -> Weight:
    """With rows of zeros behind its own, up to `rows` entries of a matrix."""
    if len(weight.shape) != 2 or weight.rows > rows:
        raise weight.wrong(f"expected at most {rows} rows")

    def read(indices: Indices) -> Blocks:
        is_own = indices < weight.rows
        own = weight.read(np.where(is_own, indices, 0))
        return np.where(is_own[:, None], own, np.uint8(0))

    return replace(weight, shape=(rows, weight.columns), read=read)


def halves(weight: Weight, interleaved: bool = False) -> tuple[Weight, Weight]:
    """The second axis from the end, or a vector's, in two: one after the other, or by turns."""
    is_vector = len(weight.shape) == 1
    axis = 0 if is_vector else -2
    both = weight.shape[axis]
    if both % 2:
        raise weight.wrong("expected an even number of rows")
    order = np.arange(weight.rows).reshape(-1, both)
    picks = (
        (order[:, ::2], order[:, 1::2])
        if interleaved
        else (order[:, : both // 2], order[:, both // 2 :])
    )
    shape = (both // 2,) if is_vector else (*weight.shape[:-2], both // 2, weight.shape[-1])
    first, second = (reordered(weight, pick.reshape(-1), shape) for pick in picks)
    return first, second


def stacked(weights: Sequence[Weight]) -> Weight:
    """Tensors of one shape as the entries of a new first axis."""
    first = weights[0]
    for weight in weights:
        if weight.shape != first.shape:
            raise weight.wrong(f"expected {first.shape} as others")
    whole = joined(weights)
    shape = (len(weights), *first.shape)
    return replace(whole, shape=shape) if len(first.shape) > 1 else reshaped(whole, shape)


def joined(weights: Sequence[Weight]) -> Weight:
    """Tensors one after another along the first axis; decoded when their types differ."""
    first = weights[0]
    for weight in weights:
        if weight.columns != first.columns:
            raise weight.wrong(f"expected {first.columns} columns")
    one_type = all(weight.type == first.type for weight in weights)
    starts = np.cumsum([0] + [weight.rows for weight in weights])

    def read(rows: Indices) -> Blocks:
        owner = np.searchsorted(starts, rows, "right") - 1
        pieces: list[Blocks] = []
        for change in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(owner)) + 1):
            if len(change):
                weight, start = weights[owner[change[0]]], starts[owner[change[0]]]
                chosen = rows[change] - start
                floats = weight.floats(chosen).view(np.uint8) if not one_type else None
                pieces.append(weight.read(chosen) if floats is None else floats)
        return np.concatenate(pieces) if pieces else np.zeros((0, 0), np.uint8)

    shape = (sum(weight.shape[0] for weight in weights), *first.shape[1:])
    if one_type:
        return replace(first, shape=shape, read=read)
    naturals = {weight.natural for weight in weights}
    return Weight(first.origin, shape, "F32", first.natural if len(naturals) == 1 else "F16", read)


def mapped(weight: Weight, change: Callable[[Values], Values]) -> Weight:
    """Each number changed."""
    return from_floats(
        weight.origin, weight.shape, weight.natural, lambda rows: change(weight.floats(rows))
    )


def ternary(weight: Weight) -> Weight:
    """-1, 0 and 1 times the mean magnitude of all its numbers, whichever is nearest.

    Source: Ma et al. 2024 (The Era of 1-bit LLMs).
    """
    height = max(1, STRIP // max(1, weight.columns))

    @cache
    def scale() -> np.float32:
        total = 0.0
        for start in range(0, weight.rows, height):
            rows = np.arange(start, min(weight.rows, start + height))
            total += float(np.abs(weight.floats(rows)).sum(dtype=np.float64))
        return np.float32(max(total / max(1, prod(weight.shape)), 1e-5))

    def read(rows: Indices) -> Values:
        values: Values = np.rint(weight.floats(rows) / scale()).clip(-1, 1) * scale()
        return values

    return from_floats(weight.origin, weight.shape, "TQ2_0", read)


def transposed(weight: Weight) -> Weight:
    """The last two axes exchanged. Each strip reads the matrix through, a piece at a time."""
    *outer, rows, columns = weight.shape
    height = max(1, STRIP // max(1, columns))

    def read(wanted: Indices) -> Values:
        result = np.empty((len(wanted), rows), np.float32)
        for matrix in np.unique(wanted // columns):
            chosen = np.flatnonzero(wanted // columns == matrix)
            for start in range(0, rows, height):
                stop = min(rows, start + height)
                piece = weight.floats(np.arange(matrix * rows + start, matrix * rows + stop))
                result[chosen, start:stop] = piece[:, wanted[chosen] % columns].T
        return result

    return from_floats(weight.origin, (*outer, columns, rows), weight.natural, read)


def reshaped(weight: Weight, shape: Shape) -> Weight:
    """The same numbers in the same order; rows may grow or shrink where these are plain floats."""
    if prod(shape) != prod(weight.shape):
        raise weight.wrong(f"expected {prod(shape)} numbers, as {shape}")
    columns = shape[-1] if len(shape) > 1 else 1
    if columns == weight.columns:
        return replace(weight, shape=shape)
    if columns % weight.columns == 0:
        each = columns // weight.columns

        def wider(rows: Indices) -> Blocks:
            inner = (rows[:, None] * each + np.arange(each)).reshape(-1)
            return weight.read(inner).reshape(len(rows), -1)

        return replace(weight, shape=shape, read=wider)
    each = weight.columns // columns
    if weight.type not in FLOATS or each * columns != weight.columns:
        raise weight.wrong(f"cannot become {shape}")

    def narrower(rows: Indices) -> Blocks:
        outer = weight.read(rows // each).reshape(len(rows), each, -1)
        return outer[np.arange(len(rows)), rows % each]

    return replace(weight, shape=shape, read=narrower)


def squeezed(weight: Weight) -> Weight:
    """Without axes of length 1."""
    return reshaped(weight, tuple(size for size in weight.shape if size != 1) or (1,))


def same_numbers(one: Weight, other: Weight) -> bool:
    """Whether two tensors are the same, byte by byte; read up to the first strip that differs."""
    if one.shape != other.shape or one.type != other.type:
        return False
    height = max(1, STRIP // max(1, one.columns))
    strips = (
        np.arange(start, min(start + height, one.rows)) for start in range(0, one.rows, height)
    )
    return all(np.array_equal(one.read(rows), other.read(rows)) for rows in strips)
