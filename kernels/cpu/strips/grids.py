"""Readers of the IQ1, IQ2 and IQ3 formats: rows of a fixed grid, with signs or a shift.

Layouts in `formats/iq_codebook.py`. A grid row of 8 weights is two 32-bit words of its table, one
of 4 weights is one: a lane takes the words of its own indices.
"""

from collections.abc import Callable, Iterator
from typing import Any

from edgellm.kernels.cpu.domain import Domain
from edgellm.kernels.cpu.emit import Emit, splat
from edgellm.kernels.cpu.isa import Isa
from edgellm.kernels.cpu.strips.lookups import bit_mask, gather
from edgellm.kernels.cpu.strips.strip import Block, Group, Strip
from edgellm.kernels.formats import iq_codebook
from edgellm.kernels.formats.words import Table

Factor = Callable[[int], Any]


def _odd(emit: Emit, bits: Any) -> Any:
    """2s + 1 as floats."""
    doubled = emit.b.shl(bits, splat(emit.dwords_type, 1))
    return emit.to_float(emit.b.or_(doubled, splat(emit.dwords_type, 1)))


def _fraction(emit: Emit, rows: list[Any], fraction: float) -> Any:
    """The half at the block's start times `fraction`."""
    return emit.b.fmul(emit.halves(rows, 0), emit.float_constant(fraction))


def _with_even_signs(emit: Emit, fields: Any) -> Any:
    """Sign bytes from 7-bit fields, one in each byte: bit 7 makes the number of set bits even."""
    b = emit.b
    parity = fields
    for count in (4, 2, 1):
        parity = b.xor(parity, b.lshr(parity, splat(emit.dwords_type, count)))
    low = b.and_(parity, splat(emit.dwords_type, 0x01010101))
    return b.or_(fields, b.shl(low, splat(emit.dwords_type, 7)))


def _sevens(emit: Emit, dwords: Any) -> Any:
    """Four 7-bit fields from bit 0 up -> one in each byte."""
    b = emit.b
    parts = [
        b.shl(b.and_(dwords, splat(emit.dwords_type, 0x7F << 7 * k)), splat(emit.dwords_type, k))
        for k in range(4)
    ]
    return b.or_(b.or_(parts[0], parts[1]), b.or_(parts[2], parts[3]))


def _signed(emit: Emit, rows: list[Any], signs: Any, offset: int) -> list[Any]:
    """8 vectors of positive grid rows -> offset +- them; bit i of `signs` is that of weight i."""
    b, vectors = emit.b, []
    for j, row in enumerate(rows):
        minus = bit_mask(emit, signs, j // 2, 4 * (j % 2))
        value = b.sub(b.xor(b.bitcast(row, emit.bytes_type), minus), minus)
        vectors.append(b.add(value, splat(emit.bytes_type, offset)))
    return vectors


def _eights(emit: Emit, table: Table, indices: list[Any]) -> list[Any]:
    """Two vectors for each index: the words of a grid row of 8 weights."""
    words = [int(w) >> shift & 0xFFFFFFFF for w in table.array for shift in (0, 32)]
    b, rows = emit.b, []
    for index in indices:
        first = b.shl(index, splat(emit.dwords_type, 1))
        second = b.or_(first, splat(emit.dwords_type, 1))
        rows += [gather(emit, words, first), gather(emit, words, second)]
    return rows


def _fours(emit: Emit, table: Table, indices: list[Any]) -> list[Any]:
    """A vector for each index: the word of a grid row of 4 weights."""
    words = [int(w) for w in table.array]
    return [gather(emit, words, index) for index in indices]


def _bytes(emit: Emit, dwords: Any) -> list[Any]:
    """The four bytes of each lane, each as a number."""
    return [emit.field(dwords, 8 * k, 8) for k in range(4)]


def _raised(emit: Emit, low: Any, high: Any, shift: int, bits: int) -> Any:
    """low + 256 * (`bits` bits of `high` from `shift` on)."""
    top = emit.field(high, shift, bits)
    return emit.b.or_(low, emit.b.shl(top, splat(emit.dwords_type, 8)))


def _halved(vectors: list[Any], number: int) -> Iterator[Group]:
    """32 weights as two groups of 16."""
    yield 2 * number, vectors[:4]
    yield 2 * number + 1, vectors[4:]


def _nibble_scales(emit: Emit, rows: list[Any], start: int, d: Any, count: int) -> Factor:
    """d * (2s + 1) with `count` nibbles s from byte `start` on."""
    words = [emit.dwords(rows, start + 4 * i) for i in range(count // 8)]
    return lambda i: emit.b.fmul(d, _odd(emit, emit.field(words[i // 8], 4 * (i % 8), 4)))


def _iq2_xxs(emit: Emit, rows: list[Any]) -> Block:
    d = _fraction(emit, rows, 0.125)
    tails = [emit.dwords(rows, 6 + 8 * g) for g in range(8)]

    def scale(i: int) -> Any:
        return emit.b.fmul(d, _odd(emit, emit.field(tails[i], 28, 4)))

    def groups() -> Iterator[Group]:
        for g, tail in enumerate(tails):
            indices = _bytes(emit, emit.dwords(rows, 2 + 8 * g))
            signs = _with_even_signs(emit, _sevens(emit, tail))
            yield g, _signed(emit, _eights(emit, iq_codebook.IQ2_XXS, indices), signs, 64)

    return Block(groups(), scale)


def _iq2_xs(emit: Emit, rows: list[Any]) -> Block:
    b = emit.b
    scale = _nibble_scales(emit, rows, 66, _fraction(emit, rows, 0.125), 16)

    def groups() -> Iterator[Group]:
        for g in range(8):
            pairs = [emit.dwords(rows, 2 + 8 * g), emit.dwords(rows, 6 + 8 * g)]
            indices = [emit.field(pair, 16 * k, 9) for pair in pairs for k in range(2)]
            fields = [emit.field(pair, 16 * k + 9, 7) for pair in pairs for k in range(2)]
            packed = fields[0]
            for k in range(1, 4):
                packed = b.or_(packed, b.shl(fields[k], splat(emit.dwords_type, 8 * k)))
            signs = _with_even_signs(emit, packed)
            grid = _eights(emit, iq_codebook.IQ2_XS, indices)
            yield from _halved(_signed(emit, grid, signs, 64), g)

    return Block(groups(), scale)


def _iq2_s(emit: Emit, rows: list[Any]) -> Block:
    scale = _nibble_scales(emit, rows, 74, _fraction(emit, rows, 0.125), 16)
    high = [emit.dwords(rows, 66), emit.dwords(rows, 70)]

    def groups() -> Iterator[Group]:
        for g in range(8):
            low = _bytes(emit, emit.dwords(rows, 2 + 4 * g))
            indices = [
                _raised(emit, part, high[g // 4], 8 * (g % 4) + 2 * k, 2)
                for k, part in enumerate(low)
            ]
            grid = _eights(emit, iq_codebook.IQ2_S, indices)
            yield from _halved(_signed(emit, grid, emit.dwords(rows, 34 + 4 * g), 64), g)

    return Block(groups(), scale)


def _iq3_xxs(emit: Emit, rows: list[Any]) -> Block:
    d = _fraction(emit, rows, 0.25)
    tails = [emit.dwords(rows, 66 + 4 * g) for g in range(8)]

    def scale(i: int) -> Any:
        return emit.b.fmul(d, _odd(emit, emit.field(tails[i], 28, 4)))

    def groups() -> Iterator[Group]:
        for g, tail in enumerate(tails):
            indices = [i for at in (2, 6) for i in _bytes(emit, emit.dwords(rows, at + 8 * g))]
            signs = _with_even_signs(emit, _sevens(emit, tail))
            yield g, _signed(emit, _fours(emit, iq_codebook.IQ3_XXS, indices), signs, 64)

    return Block(groups(), scale)


def _iq3_s(emit: Emit, rows: list[Any]) -> Block:
    scale = _nibble_scales(emit, rows, 106, emit.halves(rows, 0), 8)
    high = [emit.dwords(rows, 66), emit.dwords(rows, 70)]

    def groups() -> Iterator[Group]:
        for g in range(8):
            low = [i for at in (2, 6) for i in _bytes(emit, emit.dwords(rows, at + 8 * g))]
            indices = [
                _raised(emit, part, high[g // 4], 8 * (g % 4) + k, 1) for k, part in enumerate(low)
            ]
            grid = _fours(emit, iq_codebook.IQ3_S, indices)
            yield g, _signed(emit, grid, emit.dwords(rows, 74 + 4 * g), 16)

    return Block(groups(), scale)


def _shifted(emit: Emit, indices: list[Any], minus: list[Any]) -> list[Any]:
    """16 + 8 * grid row + 1, or - 1 where `minus`, for each index; the table holds 8 * row + 9."""
    b, vectors = emit.b, []
    rows = _eights(emit, iq_codebook.IQ1, indices)
    for j, row in enumerate(rows):
        # No byte carries: at most 17 + 8.
        less = b.mul(minus[j // 2], splat(emit.dwords_type, 0x02020202))
        moved = b.sub(b.add(row, splat(emit.dwords_type, 0x08080808)), less)
        vectors.append(b.bitcast(moved, emit.bytes_type))
    return vectors


def _iq1_s(emit: Emit, rows: list[Any]) -> Block:
    d = _fraction(emit, rows, 0.125)
    high = [emit.dwords(rows, 34 + 4 * i) for i in range(4)]

    def scale(i: int) -> Any:
        return emit.b.fmul(d, _odd(emit, emit.field(high[i // 2], 16 * (i % 2) + 12, 3)))

    def groups() -> Iterator[Group]:
        for g in range(8):
            top, at = high[g // 2], 16 * (g % 2)
            low = _bytes(emit, emit.dwords(rows, 2 + 4 * g))
            indices = [_raised(emit, part, top, at + 3 * k, 3) for k, part in enumerate(low)]
            yield g, _shifted(emit, indices, [emit.field(top, at + 15, 1)] * 4)

    return Block(groups(), scale)


def _iq1_m(emit: Emit, rows: list[Any]) -> Block:
    b = emit.b
    words = [emit.dwords(rows, 48), emit.dwords(rows, 52)]
    nibbles = [emit.field(word, 16 * k + 12, 4) for word in words for k in range(2)]
    bits = nibbles[0]
    for k in range(1, 4):
        bits = b.or_(bits, b.shl(nibbles[k], splat(emit.dwords_type, 4 * k)))
    d = b.fmul(emit.low_half(bits), emit.float_constant(0.125))

    def scale(i: int) -> Any:
        s = emit.field(words[i // 8], 16 * (i // 4 % 2) + 3 * (i % 4), 3)
        return b.fmul(d, _odd(emit, s))

    def groups() -> Iterator[Group]:
        for g in range(8):
            high = emit.dwords(rows, 32 + 4 * (g // 2))
            at = 16 * (g % 2)
            low = _bytes(emit, emit.dwords(rows, 4 * g))
            indices = [_raised(emit, part, high, at + 4 * k, 3) for k, part in enumerate(low)]
            minus = [emit.field(high, at + 4 * k + 3, 1) for k in range(4)]
            yield from _halved(_shifted(emit, indices, minus), g)

    return Block(groups(), scale)


def strips(isa: Isa) -> dict[str, Strip]:
    """Readers by the name of their format."""
    return {
        "IQ1_S": Strip(Domain(16, 25), _iq1_s),
        "IQ1_M": Strip(Domain(16, 25), _iq1_m),
        "IQ2_XXS": Strip(Domain(64, 107), _iq2_xxs),
        "IQ2_XS": Strip(Domain(64, 107), _iq2_xs),
        "IQ2_S": Strip(Domain(64, 107), _iq2_s),
        "IQ3_XXS": Strip(Domain(64, 126), _iq3_xxs),
        "IQ3_S": Strip(Domain(16, 31), _iq3_s),
    }
