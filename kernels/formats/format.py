"""What a block format is. Knows nothing of files, models or machines.

A format file registers one or more `Format` rows. The functions of a row:

- `dequantize(blocks)`: uint8 (n, type_size) -> float32 (n, block_size), in numpy, the reference.
- `quantize(values)`: float32 (n, block_size) -> uint8 (n, type_size), or None when not offered.
- `unpack(src, q, scales, mins)`: one block, written in the part of Python that Numba compiles, so
  that it runs as it is on numpy arrays and, compiled, on raw pointers. It reads `src` (uint8,
  type_size bytes) and writes `q` (int8, block_size), `scales` and `mins` (float32, one per group)
  such that value = scales[group] * q + mins[group]. Formats without a minimum leave `mins` alone.
  None for the float formats, which have kernels of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Blocks = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Format:
    """One ggml tensor type. Sizes: `block_size` in weights, `type_size` in bytes per block."""

    type_id: int
    name: str
    block_size: int
    type_size: int
    dequantize: Callable[[Blocks], Values]
    quantize: Callable[[Values], Blocks] | None = None
    unpack: Callable[..., None] | None = None
    group_size: int = 32  # weights that share a scale in `unpack`: 16 or 32
    has_min: bool = False

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


def quantize_rows(fmt: Format, values: Values) -> Blocks:
    """float32 (..., columns) -> uint8 (..., row_bytes)."""
    if fmt.quantize is None:
        raise ValueError(f"edgellm does not write {fmt.name}")
    blocks = fmt.quantize(np.ascontiguousarray(values, np.float32).reshape(-1, fmt.block_size))
    return blocks.reshape(*values.shape[:-1], fmt.row_bytes(values.shape[-1]))
