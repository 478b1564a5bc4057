"""Random blocks of any format whose scales are finite: what a file may hold, extremes included."""

from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats import Format
from edgellm.kernels.formats.format import Blocks

# Byte offsets of the halves in a block. IQ1_M has its half in four nibbles, the float types have
# none, MXFP4 and NVFP4 have byte scales, all of which are finite.
HALVES = {
    **dict.fromkeys(("Q4_0", "Q5_0", "Q8_0", "Q1_0", "Q2_0", "IQ4_NL", "IQ4_XS"), (0,)),
    **dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, 2)),
    **dict.fromkeys(("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"), (0,)),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q6_K": (208,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
}
# Zeros of both signs, the smallest and largest denormal, the smallest normal, the largest.
EXTREMES = np.array([0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF], np.uint16)


def put_half(fmt: Format, blocks: Blocks, bits: npt.NDArray[Any]) -> None:
    """Writes the halves (n, number of halves) given by their bits; IQ1_M takes the first."""
    if fmt.name == "IQ1_M":
        for nibble in range(4):
            high = (bits[:, 0] >> 4 * nibble & 15).astype(np.uint8) << 4
            blocks[:, 49 + 2 * nibble] = blocks[:, 49 + 2 * nibble] & 15 | high
    for k, offset in enumerate(HALVES.get(fmt.name, ())):
        blocks[:, offset : offset + 2] = bits[:, k : k + 1].astype("<u2").view(np.uint8)


def random_blocks(fmt: Format, count: int, seed: int = 0) -> Blocks:
    """Random bytes; the first blocks have the extreme scales, the rest finite random ones."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (count, fmt.type_size), np.uint8)
    bits = rng.integers(0, 0x7C00, (count, 2)) | rng.integers(0, 2, (count, 2)) << 15
    bits[: len(EXTREMES), 0] = EXTREMES[:count]
    bits[: len(EXTREMES), 1] = np.roll(EXTREMES, 3)[:count]
    put_half(fmt, blocks, bits)
    return blocks
