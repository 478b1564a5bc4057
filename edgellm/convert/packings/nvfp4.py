"""NVFP4: floats of four bits by groups of 16 under an eight-bit float, and a scale for all.

    codes   uint8 (rows, columns / 2)    low nibble first
    scales  e4m3 (rows, columns / 16)    not negative

GGUF's NVFP4 holds the same numbers, of each 16 the first 8 in the low nibbles, and the scale of all
in a tensor beside it: nothing is lost.
"""

from collections.abc import Iterator

import numpy as np

from edgellm.convert.packings.packed import Packed, floats, numbers, origin, shaped
from edgellm.convert.safetensors import Stored
from edgellm.convert.weight import Blocks, Indices, Weight, from_array
from edgellm.errors import GGUFError

_GROUP = 16


def nvfp4_weights(
    packed: Packed, prefix: str, stored: Stored, scale: str, divides: bool
) -> Iterator[tuple[str, Weight]]:
    """The blocks of `stored` as `PREFIX.weight`, and what all are multiplied with as
    `PREFIX.scale`.

    scale: the name of the one for all, behind the prefix. divides: whether it is to be divided by.
    """
    if len(stored.shape) != 2 or stored.dtype != "U8" or stored.shape[1] % 32:
        raise GGUFError(
            f"{origin(stored)} is {stored.dtype} {stored.shape}, expected pairs of codes, a "
            "multiple of 64 in a row"
        )
    rows, octets = stored.shape
    per_row = octets * 2 // _GROUP
    scales = shaped(packed.take(f"{prefix}.weight_scale"), (rows, per_row), ("F8_E4M3",))
    whole = floats(packed.take(f"{prefix}.{scale}")).reshape(-1)
    if whole.size != 1 or not np.isfinite(whole).all() or not whole.all():
        raise GGUFError(f"{origin(stored)}: {scale} is {whole[:4]}, expected one number")
    codes, factors = numbers(stored).reshape(rows, per_row, _GROUP // 2), numbers(scales)
    if (factors > 0x7E).any():
        raise GGUFError(f"{origin(scales)} has scales below zero, or that are no numbers")

    def read(indices: Indices) -> Blocks:
        pairs = codes[indices]
        each = np.stack([pairs & 15, pairs >> 4], -1).reshape(len(indices), per_row, _GROUP)
        nibbles = each[..., :8] | each[..., 8:] << np.uint8(4)
        groups = nibbles.reshape(len(indices), per_row // 4, 32)
        heads = factors[indices].reshape(len(indices), per_row // 4, 4)
        return np.concatenate([heads, groups], -1).reshape(len(indices), -1)

    shape = (rows, octets * 2)
    yield f"{prefix}.weight", Weight(origin(stored), shape, "NVFP4", "NVFP4", read)
    yield f"{prefix}.scale", from_array(origin(stored), 1 / whole if divides else whole)
