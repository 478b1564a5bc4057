"""Reading and writing the bit fields of blocks in numpy: halves, bit planes, groups of weights.

Shared by the format files. Knows no format. Blocks are uint8 (n, type_size); all fields are
little-endian.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats.format import Blocks, Values


def halves(blocks: Blocks, start: int, count: int = 1) -> Values:
    """`count` IEEE halves from byte `start` of each block, as float32 (n, count)."""
    return blocks[:, start : start + 2 * count].view("<f2").astype(np.float32)


def planes(data: Blocks, bits: int) -> Blocks:
    """Split bytes (..., m) into (..., 8 // bits, m): plane p holds bits p * bits and up."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    return data[..., None, :] >> shifts & np.uint8((1 << bits) - 1)


def pack_planes(fields: Blocks, bits: int) -> Blocks:
    """The inverse of `planes`: fields (..., 8 // bits, m) -> bytes (..., m)."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    packed: Blocks = np.bitwise_or.reduce(fields << shifts, axis=-2)
    return packed


def pack_sequence(fields: Blocks, bits: int = 1) -> Blocks:
    """The inverse of `bit_sequence`: fields (..., m * 8 // bits) -> bytes (..., m)."""
    per_byte = 8 // bits
    return pack_planes(fields.reshape(*fields.shape[:-1], -1, per_byte).swapaxes(-1, -2), bits)


def bit_sequence(data: Blocks, bits: int = 1) -> Blocks:
    """Split bytes (..., m) into (..., m * 8 // bits): the fields of a byte follow each other."""
    return planes(data, bits).swapaxes(-1, -2).reshape(*data.shape[:-1], -1)


def affine(q: npt.NDArray[Any], scales: Values, mins: Values | None = None) -> Values:
    """scales * q + mins, with q (n, ...) cut into as many groups as there are `scales` (n, groups).

    Returns float32 (n, block_size).
    """
    n, groups = scales.shape
    values = scales[..., None] * q.reshape(n, groups, -1).astype(np.float32)
    if mins is not None:
        values += mins[..., None]
    return values.reshape(n, -1)


def half_bytes(values: Values) -> Blocks:
    """float32 (n, 1) -> uint8 (n, 2), rounded to halves; ValueError when one is not finite."""
    with np.errstate(over="ignore"):
        rounded = values.astype("<f2")
    if not np.isfinite(rounded).all():
        raise ValueError(
            "cannot quantise: a block holds NaN, infinity or values beyond a half's range"
        )
    return rounded.view(np.uint8)
