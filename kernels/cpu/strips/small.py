"""Readers of one-bit, two-bit and ternary formats: TQ1_0, TQ2_0, Q1_0 and Q2_0."""

from collections.abc import Iterator
from typing import Any

from edgellm.kernels.cpu.domain import Domain
from edgellm.kernels.cpu.emit import Emit, splat
from edgellm.kernels.cpu.isa import Isa
from edgellm.kernels.cpu.strips.lookups import bit_mask
from edgellm.kernels.cpu.strips.strip import Block, Group, Strip, constant


def _tq2_0(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 64)

    def groups() -> Iterator[Group]:
        for half in range(2):
            columns = emit.columns32(rows, 32 * half)
            for p in range(4):
                yield 4 * half + p, [emit.moved(v, 2 * p, 3) for v in columns]

    return Block(groups(), constant(scale))


def _digit(emit: Emit, fractions: Any, power: int) -> Any:
    """Digit `power` in base 3 of every byte; see `formats/ternary.py`."""
    b, words = emit.b, emit.words_type
    wide = b.bitcast(fractions, words)

    def digit(parts: Any) -> Any:
        moved = b.and_(b.mul(parts, splat(words, 3**power)), splat(words, 255))
        return b.lshr(b.mul(moved, splat(words, 3)), splat(words, 8))

    low, high = digit(b.and_(wide, splat(words, 255))), digit(b.lshr(wide, splat(words, 8)))
    return b.bitcast(b.or_(low, b.shl(high, splat(words, 8))), emit.bytes_type)


def _tq1_0(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 52)

    def groups() -> Iterator[Group]:
        first = emit.columns32(rows, 0)
        for power in range(5):
            yield power, [_digit(emit, column, power) for column in first]
        second = emit.columns16(rows, 32)
        sixteens = [[_digit(emit, column, power) for column in second] for power in range(5)]
        last = emit.b.bitcast(emit.dwords(rows, 48), emit.bytes_type)
        sixteens.append([_digit(emit, last, power) for power in range(4)])
        for g in range(3):
            yield 5 + g, sixteens[2 * g] + sixteens[2 * g + 1]

    return Block(groups(), constant(scale))


def _q1_0(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 0)

    def groups() -> Iterator[Group]:
        for g in range(4):
            bits = emit.dwords(rows, 2 + 4 * g)
            # 2 where the bit is set, else 0: one more than the weight.
            yield g, [emit.masked(bit_mask(emit, bits, j // 2, 4 * (j % 2)), 2) for j in range(8)]

    return Block(groups(), constant(scale))


def _q2_0(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 0)

    def fours(dwords: Any, byte: int) -> Any:
        """The four two-bit numbers of a byte of each lane, one in each byte."""
        b, word = emit.b, emit.field(dwords, 8 * byte, 8)
        spread = b.or_(word, b.shl(word, splat(emit.dwords_type, 12)))  # pairs 16 bits apart
        spread = b.or_(spread, b.shl(spread, splat(emit.dwords_type, 6)))
        return emit.masked(b.bitcast(spread, emit.bytes_type), 3)

    def groups() -> Iterator[Group]:
        for g in range(2):
            words = [emit.dwords(rows, 2 + 8 * g), emit.dwords(rows, 6 + 8 * g)]
            yield g, [fours(word, byte) for word in words for byte in range(4)]

    return Block(groups(), constant(scale))


def strips(isa: Isa) -> dict[str, Strip]:
    """Readers by the name of their format."""
    return {
        "TQ1_0": Strip(Domain(1, 2), _tq1_0),
        "TQ2_0": Strip(Domain(1, 3), _tq2_0, is_bytewise=True),
        "Q1_0": Strip(Domain(1, 2), _q1_0),
        "Q2_0": Strip(Domain(1, 3), _q2_0),
    }
