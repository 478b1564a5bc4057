"""Q2_K to Q6_K: super-blocks of 256 weights whose group scales are integers times a half.

Layouts (bytes, in order; `ggml-common.h` of llama.cpp is the source):

    Q2_K  u8 scales[16]; u8 qs[64]; half d; half dmin                 16 groups of 16
    Q3_K  u8 high[32]; u8 qs[64]; u8 scales[12]; half d               16 groups of 16
    Q4_K  half d; half dmin; u8 scales[12]; u8 qs[128]                8 groups of 32
    Q5_K  half d; half dmin; u8 scales[12]; u8 high[32]; u8 qs[128]   8 groups of 32
    Q6_K  u8 low[128]; u8 high[64]; i8 scales[16]; half d             16 groups of 16

Two-bit fields lie in planes: bits 2p, 2p+1 of the 32 bytes of one 128-weight half are weights 32p
to 32p + 31 of that half. Four-bit fields likewise: low nibbles first, then high nibbles, over 32
bytes (Q4_K, Q5_K) or 64 (Q6_K). Plane p of Q3_K's and Q5_K's `high` belongs to weights 32p up.
The 12 scale bytes are described at `_scales_and_mins` and `_signed_scales`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats.fields import affine, halves, planes
from edgellm.kernels.formats.format import Blocks, Format, Rounding, Values
from edgellm.kernels.formats.k_quants_write import (
    fit_q2_k,
    fit_q3_k,
    fit_q4_k,
    fit_q5_k,
    fit_q6_k,
    pack_q2_k,
    pack_q3_k,
    pack_q4_k,
    pack_q5_k,
    pack_q6_k,
)
from edgellm.kernels.formats.rounding import affine_rounding, scaled_rounding
from edgellm.kernels.formats.scalar import half
from edgellm.kernels.formats.search import integers
from edgellm.kernels.formats.words import high_nibbles, load8, low_nibbles, store8


def dequantize_q2_k(blocks: Blocks) -> Values:
    """d * scale * q - dmin * minimum; a scale byte has the scale below and the minimum above."""
    scales, mins = blocks[:, :16] & 15, blocks[:, :16] >> 4
    q = planes(blocks[:, 16:80].reshape(-1, 2, 32), 2)
    return affine(q, halves(blocks, 80) * scales, -halves(blocks, 82) * mins)


def _signed_scales(data: Blocks) -> npt.NDArray[np.int8]:
    """Q3_K's 12 bytes -> int8 (n, 16): low nibbles of 8 bytes, then high pairs of 4, in planes."""
    low = planes(data[:, :8], 4).reshape(-1, 16)
    high = planes(data[:, 8:], 2).reshape(-1, 16)
    return (low | high << 4).astype(np.int8) - 32


def dequantize_q3_k(blocks: Blocks) -> Values:
    """d * (scale - 32) * (q - 4), the third bit of q in `high`."""
    high = planes(blocks[:, :32], 1).reshape(-1, 256)
    low = planes(blocks[:, 32:96].reshape(-1, 2, 32), 2).reshape(-1, 256)
    q = (low | high << 2).astype(np.int8) - 4
    return affine(q, halves(blocks, 108) * _signed_scales(blocks[:, 96:108]))


def _scales_and_mins(data: Blocks) -> tuple[Blocks, Blocks]:
    """Q4_K's 12 bytes -> scales and minimums, six bits each, uint8 (n, 8).

    Bytes 0-3 and 4-7 hold scales and minimums 0-3, and in their top two bits those of scales and
    minimums 4-7; bytes 8-11 hold the low nibbles of scales (below) and minimums (above) 4-7.
    """
    a, b, c = data[:, :4], data[:, 4:8], data[:, 8:]
    scales = np.concatenate([a & 63, c & 15 | a >> 6 << 4], axis=1)
    mins = np.concatenate([b & 63, c >> 4 | b >> 6 << 4], axis=1)
    return scales, mins


def dequantize_q4_k(blocks: Blocks) -> Values:
    """d * scale * q - dmin * minimum."""
    scales, mins = _scales_and_mins(blocks[:, 4:16])
    q = planes(blocks[:, 16:].reshape(-1, 4, 32), 4)
    return affine(q, halves(blocks, 0) * scales, -halves(blocks, 2) * mins)


def dequantize_q5_k(blocks: Blocks) -> Values:
    """d * scale * q - dmin * minimum, the fifth bit of q in `high`."""
    scales, mins = _scales_and_mins(blocks[:, 4:16])
    high = planes(blocks[:, 16:48], 1).reshape(-1, 256)
    q = planes(blocks[:, 48:].reshape(-1, 4, 32), 4).reshape(-1, 256) | high << 4
    return affine(q, halves(blocks, 0) * scales, -halves(blocks, 2) * mins)


def dequantize_q6_k(blocks: Blocks) -> Values:
    """d * scale * (q - 32)."""
    low = planes(blocks[:, :128].reshape(-1, 2, 64), 4).reshape(-1, 256)
    high = planes(blocks[:, 128:192].reshape(-1, 2, 32), 2).reshape(-1, 256)
    q = (low | high << 4).astype(np.int8) - 32
    return affine(q, halves(blocks, 208) * blocks[:, 192:208].view(np.int8))


def unpack_q2_k(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q2_K -> q in 0..3."""
    d = half(src[80], src[81])
    dmin = half(src[82], src[83])
    for g in range(16):
        scales[g] = d * np.float32(int(src[g]) & 15)
        mins[g] = -dmin * np.float32(int(src[g]) >> 4)
    for h in range(2):
        for j in range(32):
            byte = int(src[16 + 32 * h + j])
            q[128 * h + j] = byte & 3
            q[128 * h + 32 + j] = byte >> 2 & 3
            q[128 * h + 64 + j] = byte >> 4 & 3
            q[128 * h + 96 + j] = byte >> 6


def unpack_q3_k(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q3_K -> q in -4..3."""
    d = half(src[108], src[109])
    for g in range(16):
        low = int(src[96 + g % 8]) >> 4 * (g // 8) & 15
        high = int(src[104 + g % 4]) >> 2 * (g // 4) & 3
        scales[g] = d * np.float32(low + 16 * high - 32)
    for j in range(32):
        high = int(src[j])
        first = int(src[32 + j])
        second = int(src[64 + j])
        q[j] = (first & 3) + 4 * (high & 1) - 4
        q[32 + j] = (first >> 2 & 3) + 4 * (high >> 1 & 1) - 4
        q[64 + j] = (first >> 4 & 3) + 4 * (high >> 2 & 1) - 4
        q[96 + j] = (first >> 6) + 4 * (high >> 3 & 1) - 4
        q[128 + j] = (second & 3) + 4 * (high >> 4 & 1) - 4
        q[160 + j] = (second >> 2 & 3) + 4 * (high >> 5 & 1) - 4
        q[192 + j] = (second >> 4 & 3) + 4 * (high >> 6 & 1) - 4
        q[224 + j] = (second >> 6) + 4 * (high >> 7) - 4


def _unpack_scales_and_mins(src: Any, scales: Any, mins: Any) -> None:
    """The head that Q4_K and Q5_K share; see `_scales_and_mins`."""
    d = half(src[0], src[1])
    dmin = half(src[2], src[3])
    for g in range(4):
        a = int(src[4 + g])
        b = int(src[8 + g])
        c = int(src[12 + g])
        scales[g] = d * np.float32(a & 63)
        mins[g] = -dmin * np.float32(b & 63)
        scales[4 + g] = d * np.float32((c & 15) + 16 * (a >> 6))
        mins[4 + g] = -dmin * np.float32((c >> 4) + 16 * (b >> 6))


def unpack_q4_k(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q4_K -> q in 0..15."""
    _unpack_scales_and_mins(src, scales, mins)
    for h in range(4):
        for k in range(4):
            word = load8(src, 16 + 32 * h + 8 * k)
            store8(q, 64 * h + 8 * k, low_nibbles(word))
            store8(q, 64 * h + 32 + 8 * k, high_nibbles(word))


def unpack_q5_k(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q5_K -> q in 0..31."""
    _unpack_scales_and_mins(src, scales, mins)
    for j in range(32):
        high = int(src[16 + j])
        first = int(src[48 + j])
        second = int(src[80 + j])
        third = int(src[112 + j])
        fourth = int(src[144 + j])
        q[j] = (first & 15) + 16 * (high & 1)
        q[32 + j] = (first >> 4) + 16 * (high >> 1 & 1)
        q[64 + j] = (second & 15) + 16 * (high >> 2 & 1)
        q[96 + j] = (second >> 4) + 16 * (high >> 3 & 1)
        q[128 + j] = (third & 15) + 16 * (high >> 4 & 1)
        q[160 + j] = (third >> 4) + 16 * (high >> 5 & 1)
        q[192 + j] = (fourth & 15) + 16 * (high >> 6 & 1)
        q[224 + j] = (fourth >> 4) + 16 * (high >> 7)


def unpack_q6_k(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q6_K -> q in -32..31."""
    d = half(src[208], src[209])
    for g in range(16):
        scales[g] = d * np.float32((int(src[192 + g]) ^ 128) - 128)
    for h in range(2):
        for j in range(32):
            first = int(src[64 * h + j])
            second = int(src[64 * h + 32 + j])
            high = int(src[128 + 32 * h + j])
            q[128 * h + j] = (first & 15) + 16 * (high & 3) - 32
            q[128 * h + 32 + j] = (second & 15) + 16 * (high >> 2 & 3) - 32
            q[128 * h + 64 + j] = (first >> 4) + 16 * (high >> 4 & 3) - 32
            q[128 * h + 96 + j] = (second >> 4) + 16 * (high >> 6) - 32


_Q2_K = affine_rounding(fit_q2_k, pack_q2_k, 3)
_Q3_K = scaled_rounding(fit_q3_k, pack_q3_k, integers(-4, 3))
_Q4_K = affine_rounding(fit_q4_k, pack_q4_k, 15)
_Q5_K = affine_rounding(fit_q5_k, pack_q5_k, 31)
_Q6_K = scaled_rounding(fit_q6_k, pack_q6_k, integers(-32, 31))


def _format(
    type_id: int,
    name: str,
    type_size: int,
    dequantize: Callable[[Blocks], Values],
    rounding: Rounding,
    unpack: Callable[..., None],
    group_size: int = 32,
    has_min: bool = False,
) -> Format:
    return Format(
        type_id,
        name,
        256,
        type_size,
        dequantize,
        rounding.quantize,
        unpack,
        group_size,
        has_min,
        rounding,
    )


FORMATS = (
    _format(10, "Q2_K", 84, dequantize_q2_k, _Q2_K, unpack_q2_k, group_size=16, has_min=True),
    _format(11, "Q3_K", 110, dequantize_q3_k, _Q3_K, unpack_q3_k, group_size=16),
    _format(12, "Q4_K", 144, dequantize_q4_k, _Q4_K, unpack_q4_k, has_min=True),
    _format(13, "Q5_K", 176, dequantize_q5_k, _Q5_K, unpack_q5_k, has_min=True),
    _format(14, "Q6_K", 210, dequantize_q6_k, _Q6_K, unpack_q6_k, group_size=16),
)
