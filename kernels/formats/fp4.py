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
from edgellm.kernels.formats.fields import affine, pack_planes, planes
from edgellm.kernels.formats.format import Blocks, Format, Values
from edgellm.kernels.formats.search import inverse, sums
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


# E2M1's magnitudes and the middles between them; ties go to the smaller, as in ggml's reference.
_MAGNITUDES = E2M1[:8].astype(np.float32)
_MIDDLES = (_MAGNITUDES[1:] + _MAGNITUDES[:-1]) / 2


def _codes(scaled: Values) -> Blocks:
    """Weights in units of the halved scale -> the nearest of E2M1; zeros have no sign."""
    codes = np.searchsorted(_MIDDLES, np.abs(scaled)).astype(np.uint8)
    return codes | ((scaled < 0) & (codes > 0)).astype(np.uint8) << np.uint8(3)


def _best_codes(
    x: Values, w: Values, scale_codes: list[Blocks], table: Values
) -> tuple[Blocks, Blocks]:
    """Of several scale bytes (..., 1) the one of least error, with its codes."""
    best, codes = scale_codes[0], np.zeros(x.shape, np.uint8)
    error = np.full(best.shape, np.inf, np.float32)
    for tried in scale_codes:
        scale = table[tried]
        found = _codes(x * inverse(scale))
        difference = x - scale * E2M1[found].astype(np.float32)
        now = sums(w, np.square(difference))
        better = now < error
        error, best = np.where(better, now, error), np.where(better, tried, best)
        codes = np.where(better, found, codes)
    return best, codes


def quantize_mxfp4(values: Values, importance: Values | None = None) -> Blocks:
    """The power of two that takes the largest magnitude to 4 up to 8, the same bytes as ggml's
    reference; with importance that one or its neighbours, by the error."""
    largest = np.abs(values).max(axis=1, keepdims=True)
    exponent = np.floor(np.log2(largest)) + 125
    e = np.where(largest > 0, exponent, 0).clip(0, 254).astype(np.int16)
    if importance is None:
        scale = e.astype(np.uint8)
        codes = _codes(values * inverse(E8M0[scale]))
    else:
        tried = [(e + step).clip(0, 254).astype(np.uint8) for step in (0, 1, -1)]
        scale, codes = _best_codes(values, importance, tried, E8M0)
    return np.concatenate([scale, pack_planes(codes.reshape(-1, 2, 16), 4)], axis=1)


def _ue4m3_codes(scales: Values) -> Blocks:
    """The nearest scale byte, halves up, at most 448; as in ggml's reference, what is less than
    the smallest normal number becomes none."""
    ordered = 2 * UE4M3[:0x7F]
    codes = np.searchsorted((ordered[1:] + ordered[:-1]) / 2, scales, "right").astype(np.uint8)
    return np.where(scales < ordered[8], np.minimum(codes, np.uint8(7)), codes)


def quantize_nvfp4(values: Values, importance: Values | None = None) -> Blocks:
    """The scale that takes the largest magnitude to 6, the same bytes as ggml's reference; with
    importance that one or those near it, by the error."""
    x = values.reshape(-1, 4, 16)
    scale = _ue4m3_codes(np.abs(x).max(axis=2, keepdims=True) / np.float32(6))
    if importance is None:
        codes = _codes(x * inverse(UE4M3[scale]))
    else:
        near = scale.astype(np.int16)
        tried = [(near + step).clip(0, 0x7E).astype(np.uint8) for step in (0, -2, -1, 1, 2)]
        scale, codes = _best_codes(x, importance.reshape(x.shape), tried, UE4M3)
    packed = pack_planes(codes.reshape(-1, 4, 2, 8), 4).reshape(-1, 32)
    return np.concatenate([scale[..., 0], packed], axis=1)


FORMATS = (
    Format(39, "MXFP4", 32, 17, dequantize_mxfp4, quantize_mxfp4, unpack_mxfp4),
    Format(40, "NVFP4", 64, 36, dequantize_nvfp4, quantize_nvfp4, unpack_nvfp4, group_size=16),
)
