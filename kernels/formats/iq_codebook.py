"""The IQ types whose weights are rows of a fixed grid: 256 weights in groups of 16 or 32.

Layouts (bytes, in order; `ggml-common.h` of llama.cpp is the source), weights per scale, value:

    IQ1_S    half d; u8 qs[32]; u16 qh[8]                             32  d * (2s + 1) * (row +-1/8)
    IQ1_M    u8 qs[32]; u8 qh[16]; u16 scales[4]                      16  d * (2s + 1) * (row +-1/8)
    IQ2_XXS  half d; (u8 qs[4]; u32 signs)[8]                         32  d * (2s + 1) / 8 * +-row
    IQ2_XS   half d; u16 qs[32]; u8 scales[8]                         16  d * (2s + 1) / 8 * +-row
    IQ2_S    half d; u8 qs[32]; u8 signs[32]; u8 qh[8]; u8 scales[8]  16  d * (2s + 1) / 8 * +-row
    IQ3_XXS  half d; u8 qs[64]; u32 signs[8]                          32  d * (2s + 1) / 4 * +-row
    IQ3_S    half d; u8 qs[64]; u8 qh[8]; u8 signs[32]; u8 scales[4]  32  d * (2s + 1) * +-row

A row of the IQ3 grids is 4 weights, of the others 8; `qs` is the row number, `qh` its high bits.
Signs are one bit a weight, set for minus. Where eight share a 7-bit field (the `signs` words, which
keep s in their top 4 bits, and the top of IQ2_XS's `qs`), the eighth makes the number of minuses
even. Two four-bit scales share a byte, low nibble first.
The grids themselves are in `grids.py`, how blocks are written in `iq_codebook_write.py`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats.fields import affine, bit_sequence, halves
from edgellm.kernels.formats.format import Blocks, Format, Values
from edgellm.kernels.formats.grids import Grid, grid
from edgellm.kernels.formats.iq_codebook_write import (
    quantize_iq1_m,
    quantize_iq1_s,
    quantize_iq2_s,
    quantize_iq2_xs,
    quantize_iq2_xxs,
    quantize_iq3_s,
    quantize_iq3_xxs,
)
from edgellm.kernels.formats.scalar import half
from edgellm.kernels.formats.words import Table, bits_of_bytes, negate8, pack, store8, subtract8


def _even_bytes() -> Blocks:
    """Sign bytes of the 128 seven-bit fields: bit 7 makes the number of set bits even."""
    fields = np.arange(128, dtype=np.uint8)
    return fields | np.bitwise_count(fields) << np.uint8(7)


_MINUS = Table(lambda: bits_of_bytes(0, 255))
_EVEN_MINUS = Table(lambda: bits_of_bytes(0, 255)[_even_bytes()])
IQ2_XXS = Table(lambda: pack(grid("IQ2_XXS")))
IQ2_XS = Table(lambda: pack(grid("IQ2_XS")))
IQ2_S = Table(lambda: pack(grid("IQ2_S")))
IQ3_XXS = Table(lambda: pack(grid("IQ3_XXS")))
IQ3_S = Table(lambda: pack(grid("IQ3_S")))
IQ1 = Table(lambda: pack(8 * grid("IQ1_S") + 9))


# ---------------------------------------------------------------- numpy


def _words(data: Blocks, kind: str) -> npt.NDArray[np.uint32]:
    """Little-endian unsigned integers of `kind` from bytes (n, m), as uint32."""
    return data.view(kind).astype(np.uint32)


def _fields(words: npt.NDArray[Any], width: int, count: int) -> npt.NDArray[np.intp]:
    """(n, m) -> (n, m * count): the lowest `count` fields of `width` bits of each word."""
    shifts = np.arange(count, dtype=np.uint8) * width
    parts = words[..., None] >> shifts & ((1 << width) - 1)
    return parts.astype(np.intp).reshape(len(words), -1)


def _signed(rows: Grid, sign_bytes: Blocks) -> npt.NDArray[np.int8]:
    """Grid rows (n, ..., 8 or 4) with the signs of bytes (n, 32), as (n, 256)."""
    minus = bit_sequence(sign_bytes).astype(np.int8)
    return rows.reshape(len(rows), -1) * (1 - 2 * minus)


def _odd(s: npt.NDArray[Any]) -> Values:
    """2s + 1 as float32."""
    return (2 * s + 1).astype(np.float32)


def dequantize_iq2_xxs(blocks: Blocks) -> Values:
    """Reference for IQ2_XXS."""
    pairs = _words(blocks[:, 2:], "<u4")
    rows = _fields(pairs[:, 0::2], 8, 4)
    signs = _even_bytes()[_fields(pairs[:, 1::2], 7, 4)]
    scales = halves(blocks, 0) * np.float32(0.125) * _odd(pairs[:, 1::2] >> 28)
    return affine(_signed(grid("IQ2_XXS")[rows], signs), scales)


def dequantize_iq2_xs(blocks: Blocks) -> Values:
    """Reference for IQ2_XS."""
    codes = _words(blocks[:, 2:66], "<u2")
    scales = halves(blocks, 0) * np.float32(0.125) * _odd(bit_sequence(blocks[:, 66:], 4))
    return affine(_signed(grid("IQ2_XS")[codes & 511], _even_bytes()[codes >> 9]), scales)


def dequantize_iq2_s(blocks: Blocks) -> Values:
    """Reference for IQ2_S."""
    rows = blocks[:, 2:34] + 256 * _fields(blocks[:, 66:74], 2, 4)
    scales = halves(blocks, 0) * np.float32(0.125) * _odd(bit_sequence(blocks[:, 74:], 4))
    return affine(_signed(grid("IQ2_S")[rows], blocks[:, 34:66]), scales)


def dequantize_iq3_xxs(blocks: Blocks) -> Values:
    """Reference for IQ3_XXS."""
    words = _words(blocks[:, 66:], "<u4")
    scales = halves(blocks, 0) * np.float32(0.25) * _odd(words >> 28)
    signs = _even_bytes()[_fields(words, 7, 4)]
    return affine(_signed(grid("IQ3_XXS")[blocks[:, 2:66]], signs), scales)


def dequantize_iq3_s(blocks: Blocks) -> Values:
    """Reference for IQ3_S."""
    rows = blocks[:, 2:66] + 256 * _fields(blocks[:, 66:74], 1, 8)
    scales = halves(blocks, 0) * _odd(bit_sequence(blocks[:, 106:], 4))
    return affine(_signed(grid("IQ3_S")[rows], blocks[:, 74:106]), scales)


def _shifted(rows: npt.NDArray[np.intp], minus: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    """8 * grid row + 1, or - 1 where `minus`; both (n, 32), the result (n, 32, 8)."""
    return 8 * grid("IQ1_S")[rows] + np.where(minus, np.int8(-1), np.int8(1))[..., None]


def dequantize_iq1_s(blocks: Blocks) -> Values:
    """Reference for IQ1_S: of `qh` bits 0-11 are high bits of 4 rows, 12-14 s, 15 the minus."""
    high = _words(blocks[:, 34:], "<u2")
    rows = blocks[:, 2:34] + 256 * _fields(high, 3, 4)
    q = _shifted(rows, np.repeat(high >> 15 != 0, 4, axis=1))
    return affine(q, halves(blocks, 0) * np.float32(0.125) * _odd(high >> 12 & 7))


def dequantize_iq1_m(blocks: Blocks) -> Values:
    """Reference for IQ1_M: a nibble of `qh` is 3 high bits of a row and the minus of its 8 weights.

    A word of `scales` is four s of 3 bits and, on top, one nibble of the half d, lowest first.
    """
    words = _words(blocks[:, 48:], "<u2")
    d = (words >> 12 << np.arange(0, 16, 4, dtype=np.uint32)).sum(axis=1, keepdims=True)
    high = bit_sequence(blocks[:, 32:48], 4).astype(np.intp)
    q = _shifted(blocks[:, :32] + 256 * (high & 7), high > 7)
    scales = halves(d.astype("<u2").view(np.uint8), 0) * np.float32(0.125)
    return affine(q, scales * _odd(_fields(words, 3, 4)))


# ---------------------------------------------------------------- one block


def unpack_iq2_xxs(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """IQ2_XXS -> q of +-8, 25 or 43."""
    d = half(src[0], src[1]) * np.float32(0.125)
    for g in range(8):
        start = 2 + 8 * g
        low = int(src[start + 4]) | int(src[start + 5]) << 8
        signs = low | int(src[start + 6]) << 16 | int(src[start + 7]) << 24
        scales[g] = d * np.float32(2 * (signs >> 28) + 1)
        for k in range(4):
            row = IQ2_XXS[int(src[start + k])]
            store8(q, 32 * g + 8 * k, negate8(row, _EVEN_MINUS[signs >> 7 * k & 127]))


def unpack_iq2_xs(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """IQ2_XS -> q of +-8, 25 or 43."""
    d = half(src[0], src[1]) * np.float32(0.125)
    for g in range(8):
        scales[2 * g] = d * np.float32(2 * (int(src[66 + g]) & 15) + 1)
        scales[2 * g + 1] = d * np.float32(2 * (int(src[66 + g]) >> 4) + 1)
    for k in range(32):
        low, high = int(src[2 + 2 * k]), int(src[3 + 2 * k])
        row = IQ2_XS[low | (high & 1) << 8]
        store8(q, 8 * k, negate8(row, _EVEN_MINUS[high >> 1]))


def unpack_iq2_s(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """IQ2_S -> q of +-8, 25 or 43."""
    d = half(src[0], src[1]) * np.float32(0.125)
    for g in range(8):
        scales[2 * g] = d * np.float32(2 * (int(src[74 + g]) & 15) + 1)
        scales[2 * g + 1] = d * np.float32(2 * (int(src[74 + g]) >> 4) + 1)
        high = int(src[66 + g])
        for k in range(4):
            row = IQ2_S[int(src[2 + 4 * g + k]) | (high >> 2 * k & 3) << 8]
            store8(q, 32 * g + 8 * k, negate8(row, _MINUS[int(src[34 + 4 * g + k])]))


def unpack_iq3_xxs(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """IQ3_XXS -> q of +-4 to 62."""
    d = half(src[0], src[1]) * np.float32(0.25)
    for g in range(8):
        start = 66 + 4 * g
        low = int(src[start]) | int(src[start + 1]) << 8
        signs = low | int(src[start + 2]) << 16 | int(src[start + 3]) << 24
        scales[g] = d * np.float32(2 * (signs >> 28) + 1)
        for k in range(4):
            first, second = int(src[2 + 8 * g + 2 * k]), int(src[3 + 8 * g + 2 * k])
            row = IQ3_XXS[first] | IQ3_XXS[second] << 32
            store8(q, 32 * g + 8 * k, negate8(row, _EVEN_MINUS[signs >> 7 * k & 127]))


def unpack_iq3_s(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """IQ3_S -> q of +-1 to 15."""
    d = half(src[0], src[1])
    for g in range(8):
        scales[g] = d * np.float32(2 * (int(src[106 + g // 2]) >> 4 * (g % 2) & 15) + 1)
        high = int(src[66 + g])
        for k in range(4):
            first = int(src[2 + 8 * g + 2 * k]) | (high >> 2 * k & 1) << 8
            second = int(src[3 + 8 * g + 2 * k]) | (high >> 2 * k + 1 & 1) << 8
            row = IQ3_S[first] | IQ3_S[second] << 32
            store8(q, 32 * g + 8 * k, negate8(row, _MINUS[int(src[74 + 4 * g + k])]))


def _shifted8(index: int, minus: int) -> int:
    """8 * grid row + 1, or - 1 if `minus` is 1, in every byte."""
    return subtract8(IQ1[index], 8 + 2 * minus)


def unpack_iq1_s(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """IQ1_S -> q of -9 to 9, eight times the weight in units of the scale."""
    d = half(src[0], src[1]) * np.float32(0.125)
    for g in range(8):
        high = int(src[34 + 2 * g]) | int(src[35 + 2 * g]) << 8
        scales[g] = d * np.float32(2 * (high >> 12 & 7) + 1)
        for k in range(4):
            index = int(src[2 + 4 * g + k]) | (high >> 3 * k & 7) << 8
            store8(q, 32 * g + 8 * k, _shifted8(index, high >> 15))


def unpack_iq1_m(src: Any, q: Any, scales: Any, mins: Any) -> None:
    """IQ1_M -> q of -9 to 9, eight times the weight in units of the scale."""
    low = int(src[49]) >> 4 | int(src[51]) & 240
    high = int(src[53]) >> 4 | int(src[55]) & 240
    d = half(low, high) * np.float32(0.125)
    for g in range(16):
        word = int(src[48 + g // 4 * 2]) | int(src[49 + g // 4 * 2]) << 8
        scales[g] = d * np.float32(2 * (word >> 3 * (g % 4) & 7) + 1)
        bits = int(src[32 + g])
        first = int(src[2 * g]) | (bits & 7) << 8
        second = int(src[2 * g + 1]) | (bits >> 4 & 7) << 8
        store8(q, 16 * g, _shifted8(first, bits >> 3 & 1))
        store8(q, 16 * g + 8, _shifted8(second, bits >> 7))


FORMATS = (
    Format(16, "IQ2_XXS", 256, 66, dequantize_iq2_xxs, quantize_iq2_xxs, unpack_iq2_xxs),
    Format(17, "IQ2_XS", 256, 74, dequantize_iq2_xs, quantize_iq2_xs, unpack_iq2_xs, group_size=16),
    Format(18, "IQ3_XXS", 256, 98, dequantize_iq3_xxs, quantize_iq3_xxs, unpack_iq3_xxs),
    Format(19, "IQ1_S", 256, 50, dequantize_iq1_s, quantize_iq1_s, unpack_iq1_s),
    Format(21, "IQ3_S", 256, 110, dequantize_iq3_s, quantize_iq3_s, unpack_iq3_s),
    Format(22, "IQ2_S", 256, 82, dequantize_iq2_s, quantize_iq2_s, unpack_iq2_s, group_size=16),
    Format(29, "IQ1_M", 256, 56, dequantize_iq1_m, quantize_iq1_m, unpack_iq1_m, group_size=16),
)
