"""What a block format is. Knows nothing of files, models or machines.

A format file registers one or more `Format` rows. The functions of a row:

- `dequantize(blocks)`: uint8 (n, type_size) -> float32 (n, block_size), in numpy, the reference.
- `quantize(values, importance)`: float32 (n, block_size) -> uint8 (n, type_size). importance: how
  much the squared error of each weight counts, float32 (n, block_size) above zero, or None when
  all count the same. Where ggml's reference rounds plainly, its bytes without importance. A type
  has no quantiser (None) when it is not offered.
- `rounding`: how to fix a block's scales first and round its weights one by one, for quantisers
  that make up for each weight's error in the next ones; None where weights cannot be told apart.
- `unpack(src, q, scales, mins)`: one block, written in the part of Python that Numba compiles, so
  that it runs as it is on numpy arrays and, compiled, on raw pointers. It reads `src` (uint8,
  type_size bytes) and writes `q` (int8, block_size), `scales` and `mins` (float32, one per group)
  such that value = scales[group] * q + mins[group]. Formats without a minimum leave `mins` alone.
  None for the float formats, which have kernels of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Blocks = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scales:
    """Blocks whose scales are found: a weight is steps[group] * level + offsets[group].

    found: what the type needs to store them. steps, offsets: float32 (n, groups). levels: those
    that the scales were found with, (n, block_size).
    """

    found: Any
    steps: Values
    offsets: Values
    levels: Values


@dataclass(frozen=True)
class Rounding:
    """fit(values, importance): the scales of blocks (n, block_size), of least error. nearest(values
    in steps): the levels. pack(scales, levels (n, block_size)): the bytes."""

    fit: Callable[[Values, Values | None], Scales]
    nearest: Callable[[Values], Values]
    pack: Callable[[Scales, Values], Blocks]

    def quantize(self, values: Values, importance: Values | None = None) -> Blocks:
        """A `quantize` of Format."""
        scales = self.fit(values, importance)
        return self.pack(scales, scales.levels)


_LARGEST = np.float32(2.0**40)  # far beyond what blocks can hold; squares of it are still finite
_LEAST_IMPORTANCE = np.float32(1e-5)  # of a weight, in units of the largest of its block


@dataclass(frozen=True)
class Format:
    """One ggml tensor type. Sizes: `block_size` in weights, `type_size` in bytes per block."""

    type_id: int
    name: str
    block_size: int
    type_size: int
    dequantize: Callable[[Blocks], Values]
    quantize: Callable[[Values, Values | None], Blocks] | None = None
    unpack: Callable[..., None] | None = None
    group_size: int = 32  # weights that share a scale in `unpack`: 16 or 32
    has_min: bool = False
    rounding: Rounding | None = None

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row of `columns` weights."""
        if columns % self.block_size:
            raise ValueError(
                f"a {self.name} row holds a multiple of {self.block_size} weights, not {columns}"
            )
        return columns // self.block_size * self.type_size


def dequantize_rows(fmt: Format, rows: Blocks) -> Values:
    """uint8 (..., row_bytes) -> float32 (..., columns)."""
    values = fmt.dequantize(np.ascontiguousarray(rows).reshape(-1, fmt.type_size))
    return values.reshape(*rows.shape[:-1], rows.shape[-1] // fmt.type_size * fmt.block_size)


def quantize_rows(fmt: Format, values: Values, importance: Values | None = None) -> Blocks:
    """float32 (..., columns) -> uint8 (..., row_bytes).

    importance: float32 that can be broadcast to `values`, not negative: how much the squared error
    of each weight counts. None: all the same. ValueError for what the type cannot hold.
    """
    if fmt.quantize is None:
        raise ValueError(f"edgellm does not write {fmt.name}")
    flat = np.ascontiguousarray(values, np.float32).reshape(-1, fmt.block_size)
    if fmt.block_size > 1 and not (np.abs(flat) <= _LARGEST).all():  # NaN is not either
        raise ValueError("cannot quantise: a block holds NaN, infinity or values beyond its range")
    with np.errstate(all="ignore"):  # of quotients by zero, which count as zero
        blocks = fmt.quantize(flat, _positive(fmt, values, importance))
    return blocks.reshape(*values.shape[:-1], fmt.row_bytes(values.shape[-1]))


def _positive(fmt: Format, values: Values, importance: Values | None) -> Values | None:
    """Importance in blocks, at most 1 and above zero: a weight of none still counts a little."""
    if importance is None:
        return None
    spread = np.broadcast_to(importance, values.shape).reshape(-1, fmt.block_size)
    most = spread.max(axis=1, keepdims=True)
    shares = np.where(most > 0, spread / most, np.float32(1)).astype(np.float32)
    return np.maximum(shares, _LEAST_IMPORTANCE)
