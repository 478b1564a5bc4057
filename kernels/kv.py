"""The cache as kernels see it: keys and values, states. Knows nothing of who owns a block."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK_SIZE = 32  # tokens per block, a divisor of ops.ATTENTION_TILE
SCALED = 32  # numbers under one scale of the quantised cache types

KVArray = npt.NDArray[Any]


@dataclass(frozen=True)
class CacheType:
    """What a key or value is stored as, by the name of ggml's type.

    bytes_per_32: of 32 numbers, scale included. Quantised heads are whole multiples of that, and
    stored after a Hadamard rotation where their size is a power of two: it spreads outliers over
    the head, and scores do not change when queries are rotated too. Source: Ashkboos et al. 2024.
    """

    name: str
    dtype: type[np.float32] | type[np.float16] | type[np.uint8]
    bytes_per_32: int

    @property
    def is_quantized(self) -> bool:
        return self.dtype is np.uint8

    def row_bytes(self, width: int) -> int:
        """Bytes of one head's key or value."""
        return width * self.bytes_per_32 // SCALED

    def columns(self, width: int) -> int:
        """The same in elements of dtype."""
        return self.row_bytes(width) // np.dtype(self.dtype).itemsize

    def rotates(self, width: int) -> bool:
        """Whether heads of this size are rotated."""
        return self.is_quantized and width & (width - 1) == 0


CACHE_TYPES = {
    row.name: row
    for row in (
        CacheType("f32", np.float32, 128),
        CacheType("f16", np.float16, 64),
        CacheType("q8_0", np.uint8, 34),
        CacheType("q4_0", np.uint8, 18),
    )
}


@dataclass(frozen=True, eq=False)
class KVStorage:
    """keys, values: by layer, (num_blocks, num_kv_heads, BLOCK_SIZE, columns of a head).

    Types are chosen apart for keys and values. The backend that writes a block decides how it lies
    inside (the cpu backend keeps a head's keys as (head_dim, BLOCK_SIZE)), so that others may copy,
    move or save whole blocks and read nothing from them.
    states: one array per recurrence, float32 (num_slots, *StateLayer.stored_shape), a slot for each
    sequence that runs. A sequence at position 0 starts from zero whatever its slot holds.
    """

    keys: tuple[KVArray, ...]
    values: tuple[KVArray, ...]
    states: tuple[npt.NDArray[np.float32], ...] = ()


def cache_type(array: KVArray, width: int) -> CacheType:
    """The type of a layer's keys (or values) of `width` numbers a head."""
    for row in CACHE_TYPES.values():
        if array.dtype == row.dtype and array.shape[3] == row.columns(width):
            return row
    raise ValueError(f"rows of {array.shape[3]} {array.dtype} are no cache of {width} numbers")


def hadamard(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The orthonormal Walsh-Hadamard transform of the last axis, a power of two. Inverts itself."""
    size, half = x.shape[-1], 1
    x = x * np.float32(size**-0.5)
    while half < size:
        pairs = x.reshape(*x.shape[:-1], size // (2 * half), 2, half)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([a + b, a - b], axis=-2).reshape(x.shape)
        half *= 2
    return x
