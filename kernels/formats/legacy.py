"""Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0: 32 weights that share one scale, and a minimum in the _1 types.

Layouts (bytes, in order; `ggml-common.h` of llama.cpp is the source):

    Q4_0  half d;          u8 low[16]            d * (n - 8)
    Q4_1  half d; half m;  u8 low[16]            d * n + m
    Q5_0  half d;          u8 high[4], low[16]   d * (n - 16)
    Q5_1  half d; half m;  u8 high[4], low[16]   d * n + m
    Q8_0  half d;          i8 q[32]              d * q

Byte j of `low` holds weight j in its low nibble and weight 16 + j in its high one; bit i of `high`
is the fifth bit of weight i.
"""

from typing import Any

import numpy as np

from edgellm.kernels.formats.fields import (
    affine,
    bit_sequence,
    half_bytes,
    halves,
    planes,
)
from edgellm.kernels.formats.format import Blocks, Format, Rounding, Values
from edgellm.kernels.formats.rounding import scale_and_minimum, single_scale
from edgellm.kernels.formats.scalar import half
from edgellm.kernels.formats.search import (
    as_half,
    fit_affine,
    fit_scale,
    integers,
    inverse,
    peak,
    round_away,
)
from edgellm.kernels.formats.words import (
    Table,
    bits_of_bytes,
    high_nibbles,
    load8,
    low_nibbles,
    store8,
    subtract8,
)

# What eight high bits do to a word of nibbles: 16 less where clear, or 16 more where set.
_LESS_16 = Table(lambda: bits_of_bytes(-16, 0))
_PLUS_16 = Table(lambda: bits_of_bytes(0, 16))


def dequantize_q4_0(blocks: Blocks) -> Values:
    """Reference for Q4_0."""
    return affine(planes(blocks[:, 2:], 4).astype(np.int8) - 8, halves(blocks, 0))


def dequantize_q4_1(blocks: Blocks) -> Values:
    """Reference for Q4_1."""
    return affine(planes(blocks[:, 4:], 4), halves(blocks, 0), halves(blocks, 2))


def _five_bits(blocks: Blocks, start: int) -> Blocks:
    """The four high-bit bytes at `start` and the nibbles after them as uint8 (n, 32)."""
    high = bit_sequence(blocks[:, start : start + 4])
    return planes(blocks[:, start + 4 :], 4).reshape(-1, 32) | high << np.uint8(4)


def dequantize_q5_0(blocks: Blocks) -> Values:
    """Reference for Q5_0."""
    return affine(_five_bits(blocks, 2).astype(np.int8) - 16, halves(blocks, 0))


def dequantize_q5_1(blocks: Blocks) -> Values:
    """Reference for Q5_1."""
    return affine(_five_bits(blocks, 4), halves(blocks, 0), halves(blocks, 2))


def dequantize_q8_0(blocks: Blocks) -> Values:
    """Reference for Q8_0."""
    return affine(blocks[:, 2:].view(np.int8), halves(blocks, 0))


def unpack_q4_0(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q4_0 -> q in -8..7."""
    scales[0] = half(src[0], src[1])
    for k in range(2):
        word = load8(src, 2 + 8 * k)
        store8(q, 8 * k, subtract8(low_nibbles(word), 8))
        store8(q, 16 + 8 * k, subtract8(high_nibbles(word), 8))


def unpack_q4_1(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q4_1 -> q in 0..15."""
    scales[0] = half(src[0], src[1])
    mins[0] = half(src[2], src[3])
    for k in range(2):
        word = load8(src, 4 + 8 * k)
        store8(q, 8 * k, low_nibbles(word))
        store8(q, 16 + 8 * k, high_nibbles(word))


def unpack_q5_0(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q5_0 -> q in -16..15."""
    scales[0] = half(src[0], src[1])
    for k in range(2):
        word = load8(src, 6 + 8 * k)
        store8(q, 8 * k, low_nibbles(word) | _LESS_16[int(src[2 + k])])
        store8(q, 16 + 8 * k, high_nibbles(word) | _LESS_16[int(src[4 + k])])


def unpack_q5_1(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q5_1 -> q in 0..31."""
    scales[0] = half(src[0], src[1])
    mins[0] = half(src[2], src[3])
    for k in range(2):
        word = load8(src, 8 + 8 * k)
        store8(q, 8 * k, low_nibbles(word) | _PLUS_16[int(src[4 + k])])
        store8(q, 16 + 8 * k, high_nibbles(word) | _PLUS_16[int(src[6 + k])])


def unpack_q8_0(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q8_0 -> q as stored, -128..127 (ggml writes -127..127)."""
    scales[0] = half(src[0], src[1])
    for k in range(4):
        store8(q, 8 * k, load8(src, 2 + 8 * k))


def _pack(q: Blocks, bits: int) -> Blocks:
    """uint8 (n, 32) of 4 or 5 bits -> the high bits (5 only), then the nibbles."""
    low = q[:, :16] & np.uint8(15) | q[:, 16:] << np.uint8(4)
    if bits == 4:
        return low
    return np.concatenate([np.packbits(q >> 4, axis=1, bitorder="little"), low], axis=1)


def _quantize_signed(values: Values, importance: Values | None, bits: int) -> Blocks:
    """The value of largest magnitude becomes the most negative integer; the rest is rounded.

    With importance, the scale of least error instead.
    """
    zero = 1 << (bits - 1)
    if importance is None:
        d = peak(values) / np.float32(-zero)
    else:
        d = as_half(fit_scale(values, importance, integers(-zero, zero - 1)))
    q = (values * inverse(d) + np.float32(zero + 0.5)).clip(0, 2 * zero - 1)
    return _stored([d], q, bits)


def _stored(halves_: list[Values], q: Values, bits: int) -> Blocks:
    """The bytes of a block: halves, then weights that are whole numbers from 0 on."""
    return np.concatenate([*map(half_bytes, halves_), _pack(q.astype(np.uint8), bits)], axis=1)


def _quantize_with_min(values: Values, importance: Values | None, bits: int) -> Blocks:
    """The smallest value becomes 0, the largest the largest integer; the rest is rounded.

    With importance, the scale and minimum of least error instead.
    """
    top = (1 << bits) - 1
    if importance is None:
        m = values.min(axis=1, keepdims=True)
        d = (values.max(axis=1, keepdims=True) - m) / np.float32(top)
    else:
        least = np.arange(top - 2, top + 1, 0.25).tolist()
        d, m = map(as_half, fit_affine(values, importance, top, least, free_min=True))
    q = ((values - m) * inverse(d) + np.float32(0.5)).clip(0, top)
    return _stored([d, m], q, bits)


def quantize_q4_0(values: Values, importance: Values | None = None) -> Blocks:
    """Without importance plain rounding, the same bytes as ggml's reference."""
    return _quantize_signed(values, importance, 4)


def quantize_q4_1(values: Values, importance: Values | None = None) -> Blocks:
    """Without importance plain rounding, the same bytes as ggml's reference."""
    return _quantize_with_min(values, importance, 4)


def quantize_q5_0(values: Values, importance: Values | None = None) -> Blocks:
    """Without importance plain rounding, the same bytes as ggml's reference."""
    return _quantize_signed(values, importance, 5)


def quantize_q5_1(values: Values, importance: Values | None = None) -> Blocks:
    """Without importance plain rounding, the same bytes as ggml's reference."""
    return _quantize_with_min(values, importance, 5)


def quantize_q8_0(values: Values, importance: Values | None = None) -> Blocks:
    """The largest magnitude becomes 127; halves round away from zero, as ggml's reference."""
    d = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
    stored = half_bytes(d)
    q = round_away(values * inverse(d))
    return np.concatenate([stored, q.astype(np.int8).view(np.uint8)], axis=1)


def _signed(bits: int) -> Rounding:
    zero = 1 << (bits - 1)
    levels = integers(-zero, zero - 1)
    return single_scale(levels, lambda d, q: _stored([d], q + np.float32(zero), bits))


def _with_min(bits: int) -> Rounding:
    return scale_and_minimum((1 << bits) - 1, lambda d, m, q: _stored([d, m], q, bits))


FORMATS = (
    Format(2, "Q4_0", 32, 18, dequantize_q4_0, quantize_q4_0, unpack_q4_0, rounding=_signed(4)),
    Format(
        3,
        "Q4_1",
        32,
        20,
        dequantize_q4_1,
        quantize_q4_1,
        unpack_q4_1,
        has_min=True,
        rounding=_with_min(4),
    ),
    Format(6, "Q5_0", 32, 22, dequantize_q5_0, quantize_q5_0, unpack_q5_0, rounding=_signed(5)),
    Format(
        7,
        "Q5_1",
        32,
        24,
        dequantize_q5_1,
        quantize_q5_1,
        unpack_q5_1,
        has_min=True,
        rounding=_with_min(5),
    ),
    Format(8, "Q8_0", 32, 34, dequantize_q8_0, quantize_q8_0, unpack_q8_0),
)
