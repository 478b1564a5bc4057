"""IQ4_NL and IQ4_XS: four-bit codes into a table of sixteen values.

Layouts (bytes, in order; `ggml-common.h` of llama.cpp is the source):

    IQ4_NL  half d; u8 qs[16]                                       32 weights, d * value
    IQ4_XS  half d; u16 scales_h; u8 scales_l[4]; u8 qs[8][16]      256 weights in 8 groups of 32,
                                                                    d * (scale - 32) * value

Of 16 bytes the low nibbles are weights 0 to 15, the high ones 16 to 31. The scale of group g has
its low nibble in nibble g of `scales_l` and its two high bits at bit 2g of `scales_h`.
"""

from typing import Any

import numpy as np

from edgellm.kernels.formats.codebook import IQ4, translate8
from edgellm.kernels.formats.fields import affine, bit_sequence, halves, planes
from edgellm.kernels.formats.format import Blocks, Format, Values
from edgellm.kernels.formats.scalar import half
from edgellm.kernels.formats.words import high_nibbles, load8, low_nibbles, store8


def dequantize_iq4_nl(blocks: Blocks) -> Values:
    """Reference for IQ4_NL."""
    return affine(IQ4[planes(blocks[:, 2:], 4)], halves(blocks, 0))


def dequantize_iq4_xs(blocks: Blocks) -> Values:
    """Reference for IQ4_XS."""
    low, high = bit_sequence(blocks[:, 4:8], 4), bit_sequence(blocks[:, 2:4], 2)
    scales = (low | high << 4).astype(np.int8) - 32
    q = IQ4[planes(blocks[:, 8:].reshape(-1, 8, 16), 4)]
    return affine(q, halves(blocks, 0) * scales)


def unpack_iq4_nl(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """IQ4_NL -> q in -127..113."""
    scales[0] = half(src[0], src[1])
    for k in range(2):
        word = load8(src, 2 + 8 * k)
        store8(q, 8 * k, translate8(low_nibbles(word), IQ4))
        store8(q, 16 + 8 * k, translate8(high_nibbles(word), IQ4))


def unpack_iq4_xs(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """IQ4_XS -> q in -127..113."""
    d = half(src[0], src[1])
    high = int(src[2]) | int(src[3]) << 8
    for h in range(4):
        low = int(src[4 + h])
        scales[2 * h] = d * np.float32((low & 15) + 16 * (high >> 4 * h & 3) - 32)
        scales[2 * h + 1] = d * np.float32((low >> 4) + 16 * (high >> 4 * h + 2 & 3) - 32)
    for g in range(8):
        for k in range(2):
            word = load8(src, 8 + 16 * g + 8 * k)
            store8(q, 32 * g + 8 * k, translate8(low_nibbles(word), IQ4))
            store8(q, 32 * g + 16 + 8 * k, translate8(high_nibbles(word), IQ4))


FORMATS = (
    Format(20, "IQ4_NL", 32, 18, dequantize_iq4_nl, None, unpack_iq4_nl),
    Format(23, "IQ4_XS", 256, 136, dequantize_iq4_xs, None, unpack_iq4_xs),
)
