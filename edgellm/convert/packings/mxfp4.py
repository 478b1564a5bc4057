"""MXFP4 as gpt-oss has it: 32 floats of four bits under a power of two.

    NAME_blocks  uint8 (experts, rows, columns / 32, 16)    low nibble first
    NAME_scales  uint8 (experts, rows, columns / 32)        2^(e - 127)

GGUF's MXFP4 holds the same numbers, with the first 16 in the low nibbles: nothing is lost.
Source: Open Compute Project, Microscaling Formats 1.0.
"""

from collections.abc import Iterator

import numpy as np

from edgellm.convert.packings.packed import Packed, numbers, origin, shaped
from edgellm.convert.weight import Blocks, Indices, Weight
from edgellm.errors import GGUFError


def weights(packed: Packed) -> Iterator[tuple[str, Weight]]:
    """The matrices of experts, rows first, as `NAME.weight`."""
    for prefix in packed.names("_blocks"):
        yield f"{prefix}.weight", _weight(packed, prefix)


def _weight(packed: Packed, prefix: str) -> Weight:
    stored = packed.take(f"{prefix}_blocks")
    if len(stored.shape) < 3 or stored.shape[-1] != 16 or stored.dtype != "U8":
        raise GGUFError(f"{origin(stored)} is {stored.dtype} {stored.shape}, expected blocks of 16")
    scales = shaped(packed.take(f"{prefix}_scales"), stored.shape[:-1], ("U8", "F8_E8M0"))
    per_row = stored.shape[-2]
    blocks = numbers(stored).reshape(-1, per_row, 16)
    exponents = numbers(scales).reshape(-1, per_row, 1)

    def read(rows: Indices) -> Blocks:
        return packed_blocks(blocks[rows], exponents[rows])

    shape = (*stored.shape[:-2], per_row * 32)
    return Weight(origin(stored), shape, "MXFP4", "MXFP4", read)


def packed_blocks(blocks: Blocks, exponents: Blocks) -> Blocks:
    """uint8 (rows, blocks, 16) by pairs, and their exponents -> rows of GGUF's blocks."""
    codes = np.stack([blocks & 15, blocks >> 4], -1).reshape(*blocks.shape[:-1], 32)
    nibbles = codes[..., :16] | codes[..., 16:] << np.uint8(4)
    return np.concatenate([exponents, nibbles], -1).reshape(len(blocks), -1)
