"""MXFP4 and NVFP4: four-bit floats (E2M1) under a shared eight-bit scale.

Layouts (bytes, in order; `ggml-common.h` of llama.cpp is the source):

    MXFP4  u8 e; u8 qs[16]            32 weights, 2^(e - 127) * value / 2
    NVFP4  u8 d[4]; u8 qs[4][8]       64 weights in 4 groups of 16, ue4m3(d) * value / 2

The values are doubled, hence the halves. Of 16 (8) bytes the low nibbles are the first 16 (8)
weights, the high ones the rest. UE4M3 is an unsigned float of 4 exponent bits (bias 7) and 3
mantissa bits; its NaN code 0x7F counts as 0. The scale tables hold the halved scale of each byte.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats.codebook import E2M1, translate8
from edgellm.kernels.formats.fields import affine, planes
from edgellm.kernels.formats.format import Blocks, Format, Values
from edgellm.kernels.formats.words import high_nibbles, load8, low_nibbles, store8


def _halved_ue4m3() -> npt.NDArray[np.float32]:
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, code & 7
    scales = np.where(
        exponent == 0, np.ldexp(mantissa, -10), np.ldexp(8.0 + mantissa, exponent - 11)
    )
    return np.where(code == 0x7F, 0, scales).astype(np.float32)


E8M0 = np.ldexp(np.float32(1), np.arange(256) - 128)
UE4M3 = _halved_ue4m3()


def dequantize_mxfp4(blocks: Blocks) -> Values:
    """Reference for MXFP4; the largest scales overflow to infinity."""
    with np.errstate(over="ignore"):
        return affine(E2M1[planes(blocks[:, 1:], 4)], E8M0[blocks[:, :1]])


def dequantize_nvfp4(blocks: Blocks) -> Values:
    """Reference for NVFP4."""
    return affine(E2M1[planes(blocks[:, 4:].reshape(-1, 4, 8), 4)], UE4M3[blocks[:, :4]])


def unpack_mxfp4(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """MXFP4 -> q in -12..12."""
    scales[0] = E8M0[int(src[0])]
    for k in range(2):
        word = load8(src, 1 + 8 * k)
        store8(q, 8 * k, translate8(low_nibbles(word), E2M1))
        store8(q, 16 + 8 * k, translate8(high_nibbles(word), E2M1))


def unpack_nvfp4(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """NVFP4 -> q in -12..12."""
    for g in range(4):
        scales[g] = UE4M3[int(src[g])]
        word = load8(src, 4 + 8 * g)
        store8(q, 16 * g, translate8(low_nibbles(word), E2M1))
        store8(q, 16 * g + 8, translate8(high_nibbles(word), E2M1))


FORMATS = (
    Format(39, "MXFP4", 32, 17, dequantize_mxfp4, None, unpack_mxfp4),
    Format(40, "NVFP4", 64, 36, dequantize_nvfp4, None, unpack_nvfp4, group_size=16),
)
