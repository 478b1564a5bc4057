"""Q1_0 and Q2_0: one or two bits a weight under one scale.

Layouts (bytes, in order; llama.cpp pull requests 21273 and 24448 are the source):

    Q1_0  half d; u8 qs[16]    128 weights, weight i at bit i: d when set, -d when clear
    Q2_0  half d; u8 qs[16]    64 weights, weight i at bits 2i, 2i + 1: d * (n - 1)
"""

from typing import Any

import numpy as np

from edgellm.kernels.formats.fields import affine, bit_sequence, half_bytes, halves, pack_sequence
from edgellm.kernels.formats.format import Blocks, Format, Values
from edgellm.kernels.formats.scalar import half
from edgellm.kernels.formats.search import (
    as_half,
    fit_scale,
    integers,
    inverse,
    round_away,
    sums,
    total,
)
from edgellm.kernels.formats.words import Table, bits_of_bytes, pack, store8

# What the weights of one byte are: eight signs, or four of -1..2.
_SIGNS = Table(lambda: bits_of_bytes(-1, 1))
_FOURS = Table(lambda: pack((np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3) - 1))


def dequantize_q1_0(blocks: Blocks) -> Values:
    """Reference for Q1_0."""
    return affine(bit_sequence(blocks[:, 2:]).astype(np.int8) * 2 - 1, halves(blocks, 0))


def dequantize_q2_0(blocks: Blocks) -> Values:
    """Reference for Q2_0."""
    return affine(bit_sequence(blocks[:, 2:], 2).astype(np.int8) - 1, halves(blocks, 0))


def unpack_q1_0(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q1_0 -> q of -1 or 1."""
    d = half(src[0], src[1])
    for g in range(4):
        scales[g] = d
    for k in range(16):
        store8(q, 8 * k, _SIGNS[int(src[2 + k])])


def unpack_q2_0(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """Q2_0 -> q in -1..2."""
    d = half(src[0], src[1])
    scales[0] = d
    scales[1] = d
    for k in range(8):
        store8(q, 8 * k, _FOURS[int(src[2 + 2 * k])] | _FOURS[int(src[3 + 2 * k])] << 32)


def quantize_q1_0(values: Values, importance: Values | None = None) -> Blocks:
    """The mean magnitude and the signs; without importance the same bytes as ggml's reference."""
    if importance is None:
        # Added one after another, as the reference does: halves may round otherwise.
        added: Values = np.cumsum(np.abs(values), axis=1)[:, -1:]
        d = added / np.float32(values.shape[1])
    else:
        d = sums(importance, np.abs(values)) / total(importance)
    return np.concatenate([half_bytes(d), pack_sequence((values >= 0).astype(np.uint8))], axis=1)


def quantize_q2_0(values: Values, importance: Values | None = None) -> Blocks:
    """Without importance -1, 0 and 1 of the largest magnitude, the same bytes as ggml's reference;
    with it the scale of least error of -1 to 2."""
    if importance is None:
        d = np.abs(values).max(axis=1, keepdims=True)
    else:
        d = as_half(fit_scale(values, importance, integers(-1, 2)))
    stored = half_bytes(d)
    q = (round_away(values * inverse(d)) + 1).clip(0, 3).astype(np.uint8)
    return np.concatenate([stored, pack_sequence(q, 2)], axis=1)


FORMATS = (
    Format(41, "Q1_0", 128, 18, dequantize_q1_0, quantize_q1_0, unpack_q1_0),
    Format(42, "Q2_0", 64, 18, dequantize_q2_0, quantize_q2_0, unpack_q2_0),
)
