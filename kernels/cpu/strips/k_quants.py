"""Readers of Q2_K to Q6_K; layouts in `formats/k_quants.py`."""

from collections.abc import Callable, Iterator
from typing import Any

from edgellm.kernels.cpu.domain import Domain
from edgellm.kernels.cpu.emit import Emit, splat
from edgellm.kernels.cpu.isa import Isa
from edgellm.kernels.cpu.strips.strip import Block, Group, Strip


def _k_head(emit: Emit, rows: list[Any]) -> tuple[Callable[[int], Any], Callable[[int], Any]]:
    """Scales and minima of Q4_K and Q5_K from the 16 bytes at the start; see k_quants.py."""
    b = emit.b
    words = emit.heads(rows, 0)
    d, dmin = emit.low_half(words[0]), b.fneg(emit.high_half(words[0]))

    def six_bits(low: Any, high: Any, high_shift: int) -> tuple[Any, Any]:
        """Four 6-bit numbers: from `low` alone, and from a nibble with the top bits of `low`."""
        first = emit.masked(emit.as_bytes(low), 63)
        nibble = emit.moved(emit.as_bytes(high), high_shift, 15)
        top = emit.moved(emit.as_bytes(low), 2, 48)
        return b.bitcast(first, emit.dwords_type), b.bitcast(b.or_(nibble, top), emit.dwords_type)

    scales = six_bits(words[1], words[3], 0)
    minima = six_bits(words[2], words[3], 4)

    def factor(base: Any, parts: tuple[Any, Any]) -> Callable[[int], Any]:
        def of(i: int) -> Any:
            return b.fmul(base, emit.to_float(emit.field(parts[i // 4], 8 * (i % 4), 8)))

        return of

    return factor(d, scales), factor(dmin, minima)


def _q4_k(emit: Emit, rows: list[Any]) -> Block:
    scale, minimum = _k_head(emit, rows)

    def groups() -> Iterator[Group]:
        for u in range(4):
            columns = emit.columns32(rows, 16 + 32 * u)
            yield 2 * u, [emit.low_nibbles(c) for c in columns]
            yield 2 * u + 1, [emit.high_nibbles(c) for c in columns]

    return Block(groups(), scale, minimum)


def _q5_k(emit: Emit, rows: list[Any]) -> Block:
    scale, minimum = _k_head(emit, rows)

    def with_high(low: list[Any], high: list[Any], i: int) -> list[Any]:
        return [emit.b.or_(v, emit.moved(h, i - 4, 16)) for v, h in zip(low, high, strict=True)]

    def groups() -> Iterator[Group]:
        high = emit.columns32(rows, 16)
        for u in range(4):
            columns = emit.columns32(rows, 48 + 32 * u)
            yield 2 * u, with_high([emit.low_nibbles(c) for c in columns], high, 2 * u)
            yield 2 * u + 1, with_high([emit.high_nibbles(c) for c in columns], high, 2 * u + 1)

    return Block(groups(), scale, minimum)


def _q6_k(emit: Emit, rows: list[Any]) -> Block:
    b = emit.b
    d = emit.halves(rows, 208)
    scales = emit.heads(rows, 192)

    def scale(i: int) -> Any:
        return b.fmul(d, emit.to_float(emit.signed_byte(scales[i // 4], i % 4)))

    def groups() -> Iterator[Group]:
        for half in range(2):
            for c in range(2):
                first = emit.columns16(rows, 64 * half + 16 * c)
                second = emit.columns16(rows, 64 * half + 32 + 16 * c)
                high = emit.columns16(rows, 128 + 32 * half + 16 * c)
                for p in range(4):
                    source = second if p % 2 else first
                    nibble = emit.low_nibbles if p < 2 else emit.high_nibbles
                    yield (
                        8 * half + 2 * p + c,
                        [
                            b.or_(nibble(s), emit.moved(h, 2 * p - 4, 48))
                            for s, h in zip(source, high, strict=True)
                        ],
                    )

    return Block(groups(), scale)


def _q2_k(emit: Emit, rows: list[Any]) -> Block:
    b = emit.b
    packed = emit.heads(rows, 0)
    head = emit.dwords(rows, 80)
    d, dmin = emit.low_half(head), b.fneg(emit.high_half(head))

    def factor(base: Any, shift: int) -> Callable[[int], Any]:
        def of(i: int) -> Any:
            bits = emit.field(packed[i // 4], 8 * (i % 4) + shift, 4)
            return b.fmul(base, emit.to_float(bits))

        return of

    return Block(_two_bits(emit, rows, 16), factor(d, 0), factor(dmin, 4))


def _two_bits(emit: Emit, rows: list[Any], start: int) -> Iterator[Group]:
    """Groups of 16 from 64 bytes of 2-bit planes: weight 32p + j of a half is bits 2p of byte j."""
    for half in range(2):
        for c in range(2):
            columns = emit.columns16(rows, start + 32 * half + 16 * c)
            for p in range(4):
                yield (
                    8 * half + 2 * p + c,
                    [emit.moved(v, 2 * p, 3) for v in columns],
                )


def _q3_k(emit: Emit, rows: list[Any]) -> Block:
    b = emit.b
    d = emit.halves(rows, 108)
    low, high = [emit.dwords(rows, 96), emit.dwords(rows, 100)], emit.dwords(rows, 104)

    def scale(i: int) -> Any:
        bits = emit.field(low[i % 8 // 4], 8 * (i % 4) + 4 * (i // 8), 4)
        top = emit.field(high, 8 * (i % 4) + 2 * (i // 4), 2)
        value = b.or_(bits, b.shl(top, splat(emit.dwords_type, 4)))
        return b.fmul(d, emit.to_float(b.sub(value, splat(emit.dwords_type, 32))))

    def groups() -> Iterator[Group]:
        for c in range(2):
            mask = emit.columns16(rows, 16 * c)
            for half in range(2):
                columns = emit.columns16(rows, 32 + 32 * half + 16 * c)
                for p in range(4):
                    bit = 4 * half + p
                    yield (
                        8 * half + 2 * p + c,
                        [
                            b.or_(
                                emit.moved(v, 2 * p, 3),
                                emit.moved(m, bit - 2, 4),
                            )
                            for v, m in zip(columns, mask, strict=True)
                        ],
                    )

    return Block(groups(), scale)


def strips(isa: Isa) -> dict[str, Strip]:
    """Readers by the name of their format."""
    return {
        "Q2_K": Strip(Domain(0, 3), _q2_k, is_bytewise=True),
        "Q3_K": Strip(Domain(4, 7), _q3_k, is_bytewise=True),
        "Q4_K": Strip(Domain(0, 15), _q4_k, is_bytewise=True),
        "Q5_K": Strip(Domain(0, 31), _q5_k, is_bytewise=True),
        "Q6_K": Strip(Domain(32, 63), _q6_k, is_bytewise=True),
    }
