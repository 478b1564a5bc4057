"""TQ1_0 and TQ2_0: 256 weights of -1, 0 or 1 under one scale.

Layouts (bytes, in order; `ggml-common.h` of llama.cpp is the source):

    TQ1_0  u8 qs[32]; u8 rest[16]; u8 last[4]; half d    d * (digit - 1)
    TQ2_0  u8 qs[64]; half d                             d * (n - 1)

A byte b of TQ1_0 is a fraction b / 256 whose digits in base 3 are weights: digit k is the whole
part of 3 * frac(b * 3^k / 256). Digit k of the 32 bytes belongs to weights 32k to 32k + 31
(k < 5), of the 16 bytes to 160 + 16k up (k < 5), of the 4 bytes to 240 + 4k up (k < 4).
TQ2_0 has two-bit planes as Q2_K.
"""

from typing import Any

import numpy as np

from edgellm.kernels.formats.fields import affine, half_bytes, halves, pack_planes, planes
from edgellm.kernels.formats.format import Blocks, Format, Values
from edgellm.kernels.formats.scalar import half
from edgellm.kernels.formats.search import as_half, fit_scale, integers, inverse, round_away

_POWERS = np.array([1, 3, 9, 27, 81], np.uint8)


def _digits(data: Blocks, count: int) -> Blocks:
    """The first `count` digits of bytes (n, m): uint8 (n, count * m), digit 0 of all first."""
    fractions = data[:, None, :] * _POWERS[:count, None]
    return (fractions.astype(np.uint16) * 3 >> 8).astype(np.uint8).reshape(len(data), -1)


def dequantize_tq1_0(blocks: Blocks) -> Values:
    """Reference for TQ1_0."""
    parts = (_digits(blocks[:, :32], 5), _digits(blocks[:, 32:48], 5), _digits(blocks[:, 48:52], 4))
    return affine(np.concatenate(parts, axis=1).astype(np.int8) - 1, halves(blocks, 52))


def dequantize_tq2_0(blocks: Blocks) -> Values:
    """Reference for TQ2_0."""
    q = planes(blocks[:, :64].reshape(-1, 2, 32), 2).astype(np.int8) - 1
    return affine(q, halves(blocks, 64))


def unpack_tq1_0(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """TQ1_0 -> q in -1..1."""
    d = half(src[52], src[53])
    for g in range(8):
        scales[g] = d
    for j in range(32):
        byte = int(src[j])
        q[j] = (3 * byte >> 8) - 1
        q[32 + j] = (3 * (3 * byte & 255) >> 8) - 1
        q[64 + j] = (3 * (9 * byte & 255) >> 8) - 1
        q[96 + j] = (3 * (27 * byte & 255) >> 8) - 1
        q[128 + j] = (3 * (81 * byte & 255) >> 8) - 1
    for j in range(16):
        byte = int(src[32 + j])
        q[160 + j] = (3 * byte >> 8) - 1
        q[176 + j] = (3 * (3 * byte & 255) >> 8) - 1
        q[192 + j] = (3 * (9 * byte & 255) >> 8) - 1
        q[208 + j] = (3 * (27 * byte & 255) >> 8) - 1
        q[224 + j] = (3 * (81 * byte & 255) >> 8) - 1
    for j in range(4):
        byte = int(src[48 + j])
        q[240 + j] = (3 * byte >> 8) - 1
        q[244 + j] = (3 * (3 * byte & 255) >> 8) - 1
        q[248 + j] = (3 * (9 * byte & 255) >> 8) - 1
        q[252 + j] = (3 * (27 * byte & 255) >> 8) - 1


def unpack_tq2_0(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """TQ2_0 -> q in -1..2 (ggml writes -1..1)."""
    d = half(src[64], src[65])
    for g in range(8):
        scales[g] = d
    for h in range(2):
        for j in range(32):
            byte = int(src[32 * h + j])
            q[128 * h + j] = (byte & 3) - 1
            q[128 * h + 32 + j] = (byte >> 2 & 3) - 1
            q[128 * h + 64 + j] = (byte >> 4 & 3) - 1
            q[128 * h + 96 + j] = (byte >> 6) - 1


def _ternary(values: Values, importance: Values | None) -> tuple[Blocks, Blocks]:
    """The half's bytes and digits 0 to 2: of the largest magnitude, as ggml's reference, or with
    importance of the scale of least error."""
    if importance is None:
        d = np.abs(values).max(axis=1, keepdims=True)
    else:
        d = as_half(fit_scale(values, importance, integers(-1, 1)))
    stored = half_bytes(d)
    q = round_away(values * inverse(d)).clip(-1, 1) + 1
    return stored, q.astype(np.uint8)


def quantize_tq1_0(values: Values, importance: Values | None = None) -> Blocks:
    """Five digits in base 3 to a byte, rounded up so that their fractions come out again."""
    stored, q = _ternary(values, importance)
    parts = (q[:, :160].reshape(-1, 5, 32), q[:, 160:240].reshape(-1, 5, 16))
    last = q[:, 240:].reshape(-1, 4, 4)
    digits = [*parts, np.concatenate([last, np.zeros_like(last[:, :1])], axis=1)]
    weights = _POWERS[::-1, None].astype(np.uint16)
    numbers = [(part * weights).sum(axis=1) for part in digits]
    packed = [((number * 256 + 242) // 243).astype(np.uint8) for number in numbers]
    return np.concatenate([*packed, stored], axis=1)


def quantize_tq2_0(values: Values, importance: Values | None = None) -> Blocks:
    """Two bits to a digit."""
    stored, q = _ternary(values, importance)
    packed = pack_planes(q.reshape(-1, 2, 4, 32), 2).reshape(-1, 64)
    return np.concatenate([packed, stored], axis=1)


FORMATS = (
    Format(34, "TQ1_0", 256, 54, dequantize_tq1_0, quantize_tq1_0, unpack_tq1_0),
    Format(35, "TQ2_0", 256, 66, dequantize_tq2_0, quantize_tq2_0, unpack_tq2_0),
)
