"""Q1_0 and Q2_0: one or two bits a weight under one scale.

Layouts (bytes, in order; llama.cpp pull requests 21273 and 24448 are the source):

    Q1_0  half d; u8 qs[16]    128 weights, weight i at bit i: d when set, -d when clear
    Q2_0  half d; u8 qs[16]    64 weights, weight i at bits 2i, 2i + 1: d * (n - 1)
"""

from typing import Any

import numpy as np

from edgellm.kernels.formats.fields import affine, bit_sequence, halves
from edgellm.kernels.formats.format import Blocks, Format, Values
from edgellm.kernels.formats.scalar import half
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


FORMATS = (
    Format(41, "Q1_0", 128, 18, dequantize_q1_0, None, unpack_q1_0),
    Format(42, "Q2_0", 64, 18, dequantize_q2_0, None, unpack_q2_0),
)
