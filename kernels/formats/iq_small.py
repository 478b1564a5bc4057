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
from edgellm.kernels.formats.fields import (
    affine,
    bit_sequence,
    half_bytes,
    halves,
    pack_planes,
    pack_sequence,
    planes,
)
from edgellm.kernels.formats.format import Blocks, Format, Values
from edgellm.kernels.formats.rounding import single_scale
from edgellm.kernels.formats.scalar import half
from edgellm.kernels.formats.search import as_half, codebook, fit_scale, inverse
from edgellm.kernels.formats.super_blocks import fit_scaled
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


_LEVELS = codebook(IQ4)


def _codes(levels: Values) -> Blocks:
    """Values of the table (n, ...) -> the nibbles that stand for them."""
    return np.searchsorted(IQ4, levels).astype(np.uint8)


def quantize_iq4_nl(values: Values, importance: Values | None = None) -> Blocks:
    """The scale of least error."""
    w = np.ones_like(values) if importance is None else importance
    d = as_half(fit_scale(values, w, _LEVELS))
    return _pack_iq4_nl(d, _LEVELS.nearest(values * inverse(d), w))


def _pack_iq4_nl(d: Values, levels: Values) -> Blocks:
    codes = pack_planes(_codes(levels).reshape(-1, 2, 16), 4)
    return np.concatenate([half_bytes(d), codes], axis=1)


def quantize_iq4_xs(values: Values, importance: Values | None = None) -> Blocks:
    """Signed scales of six bits, of least error."""
    x = values.reshape(-1, 8, 32)
    w = np.ones_like(x) if importance is None else importance.reshape(x.shape)
    found = fit_scaled(x, w, _LEVELS, np.arange(-32, 32, dtype=np.float32), -32)
    scales = (found.scales + 32).astype(np.uint8)
    codes = pack_planes(_codes(found.levels).reshape(-1, 8, 2, 16), 4).reshape(-1, 128)
    high, low = pack_sequence(scales >> np.uint8(4), 2), pack_sequence(scales & np.uint8(15), 4)
    return np.concatenate([half_bytes(found.d), high, low, codes], axis=1)


FORMATS = (
    Format(
        20,
        "IQ4_NL",
        32,
        18,
        dequantize_iq4_nl,
        quantize_iq4_nl,
        unpack_iq4_nl,
        rounding=single_scale(_LEVELS, _pack_iq4_nl),
    ),
    Format(23, "IQ4_XS", 256, 136, dequantize_iq4_xs, quantize_iq4_xs, unpack_iq4_xs),
)
