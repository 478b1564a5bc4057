"""How each block format's weights become lanes: one function per format, straight from the file.

A strip is 8 or 16 weight rows. `groups(emit, rows)` yields, for one block of each row, the groups
of weights that share a scale: (index, vectors), where vector j holds columns 4j to 4j + 3 of the
group as stored integers (see Domain). Groups may come in any order; `scale` and `minimum` give
their factors as float32 lanes, with the products of the reference `dequantize`.

A format without an entry here is unpacked by its own `unpack` function.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from edgellm.kernels.cpu.emit import Domain, Emit, signed_domain, splat
from edgellm.kernels.cpu.isa import Isa
from edgellm.kernels.formats import by_name
from edgellm.kernels.formats.codebook import E2M1, IQ4

Group = tuple[int, list[Any]]


@dataclass(frozen=True)
class Block:
    """One block of each row of a strip: its groups, and the factors of group i."""

    groups: Iterator[Group]
    scale: Callable[[int], Any]
    minimum: Callable[[int], Any] | None = None


@dataclass(frozen=True)
class Strip:
    """A format's reader. `read(emit, rows)`: addresses of the same block in each row."""

    domain: Domain
    read: Callable[[Emit, list[Any]], Block]


def _constant(value: Any) -> Callable[[int], Any]:
    return lambda index: value


def _nibbles(emit: Emit, columns: list[Any]) -> list[Any]:
    """4 vectors of two nibbles a byte -> 8 vectors: the low ones, then the high ones."""
    return [emit.low_nibbles(c) for c in columns] + [emit.high_nibbles(c) for c in columns]


def _q4_0(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 0)
    return Block(iter([(0, _nibbles(emit, emit.columns16(rows, 2)))]), _constant(scale))


def _q4_1(emit: Emit, rows: list[Any]) -> Block:
    head = emit.dwords(rows, 0)
    return Block(
        iter([(0, _nibbles(emit, emit.columns16(rows, 4)))]),
        _constant(emit.low_half(head)),
        _constant(emit.high_half(head)),
    )


def _five_bits(emit: Emit, rows: list[Any], start: int) -> list[Any]:
    """The 4 high-bit bytes at `start` over the nibbles after them."""
    high = emit.dwords(rows, start)
    raised = emit.b.bitcast(emit.shift_left(emit.b.bitcast(high, emit.bytes_type), 4), high.type)
    low = _nibbles(emit, emit.columns16(rows, start + 4))
    # Bits 4j to 4j + 3 are half a byte: the upper half as it is, the lower one moved up.
    return [
        emit.b.or_(v, emit.spread_bit(high if j % 2 else raised, j // 2)) for j, v in enumerate(low)
    ]


def _q5_0(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 0)
    return Block(iter([(0, _five_bits(emit, rows, 2))]), _constant(scale))


def _q5_1(emit: Emit, rows: list[Any]) -> Block:
    head = emit.dwords(rows, 0)
    return Block(
        iter([(0, _five_bits(emit, rows, 4))]),
        _constant(emit.low_half(head)),
        _constant(emit.high_half(head)),
    )


def _as_stored(emit: Emit, vectors: list[Any]) -> list[Any]:
    """int8 vectors in the signed domain of this processor."""
    is_signed = signed_domain(emit.isa).is_signed
    return vectors if is_signed else [emit.flip_sign_bit(v) for v in vectors]


def _q8_0(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 0)
    vectors = _as_stored(emit, emit.columns32(rows, 2))
    return Block(iter([(0, vectors)]), _constant(scale))


def _k_head(emit: Emit, rows: list[Any]) -> tuple[Callable[[int], Any], Callable[[int], Any]]:
    """Scales and minima of Q4_K and Q5_K from the 16 bytes at the start; see k_quants.py."""
    b = emit.b
    words = [b.bitcast(v, emit.dwords_type) for v in emit.columns16(rows, 0)]
    d, dmin = emit.low_half(words[0]), b.fneg(emit.high_half(words[0]))

    def six_bits(low: Any, high: Any, high_shift: int) -> tuple[Any, Any]:
        """Four 6-bit numbers: from `low` alone, and from a nibble with the top bits of `low`."""
        first = emit.masked(b.bitcast(low, emit.bytes_type), 63)
        nibble = emit.masked(emit.shift_right(b.bitcast(high, emit.bytes_type), high_shift), 15)
        top = emit.masked(emit.shift_right(b.bitcast(low, emit.bytes_type), 2), 48)
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
        move = emit.shift_left if i < 4 else emit.shift_right
        return [
            emit.b.or_(v, emit.masked(move(h, abs(4 - i)), 16))
            for v, h in zip(low, high, strict=True)
        ]

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
    scales = [b.bitcast(v, emit.dwords_type) for v in emit.columns16(rows, 192)]

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
                    move = emit.shift_left if p < 2 else emit.shift_right
                    count = (4, 2, 0, 2)[p]
                    yield (
                        8 * half + 2 * p + c,
                        [
                            b.or_(nibble(s), emit.masked(move(h, count), 48))
                            for s, h in zip(source, high, strict=True)
                        ],
                    )

    return Block(groups(), scale)


def _q2_k(emit: Emit, rows: list[Any]) -> Block:
    b = emit.b
    packed = [b.bitcast(v, emit.dwords_type) for v in emit.columns16(rows, 0)]
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
                    [emit.masked(emit.shift_right(v, 2 * p), 3) for v in columns],
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
                    move = emit.shift_left if bit < 2 else emit.shift_right
                    yield (
                        8 * half + 2 * p + c,
                        [
                            b.or_(
                                emit.masked(emit.shift_right(v, 2 * p), 3),
                                emit.masked(move(m, abs(2 - bit)), 4),
                            )
                            for v, m in zip(columns, mask, strict=True)
                        ],
                    )

    return Block(groups(), scale)


def _tq2_0(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 64)

    def groups() -> Iterator[Group]:
        for half in range(2):
            columns = emit.columns32(rows, 32 * half)
            for p in range(4):
                yield 4 * half + p, [emit.masked(emit.shift_right(v, 2 * p), 3) for v in columns]

    return Block(groups(), _constant(scale))


def _through_table(emit: Emit, table: Any, indices: list[Any]) -> list[Any]:
    """table values in the signed domain of this processor."""
    offset = signed_domain(emit.isa).offset
    return [emit.lookup([(int(v) + offset) & 255 for v in table], i) for i in indices]


def _iq4_nl(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 0)
    vectors = _through_table(emit, IQ4, _nibbles(emit, emit.columns16(rows, 2)))
    return Block(iter([(0, vectors)]), _constant(scale))


def _iq4_xs(emit: Emit, rows: list[Any]) -> Block:
    b = emit.b
    head, low = emit.dwords(rows, 0), emit.dwords(rows, 4)
    d = emit.low_half(head)

    def scale(i: int) -> Any:
        bits = emit.field(low, 4 * i, 4)
        top = emit.field(head, 16 + 2 * i, 2)
        value = b.or_(bits, b.shl(top, splat(emit.dwords_type, 4)))
        return b.fmul(d, emit.to_float(b.sub(value, splat(emit.dwords_type, 32))))

    def groups() -> Iterator[Group]:
        for i in range(8):
            nibbles = _nibbles(emit, emit.columns16(rows, 8 + 16 * i))
            yield i, _through_table(emit, IQ4, nibbles)

    return Block(groups(), scale)


def _mxfp4(emit: Emit, rows: list[Any]) -> Block:
    # 2^(e - 128): the exponent field is e - 1; what would be denormal is 0 in our float mode.
    e = emit.bytes_at(rows, 0)
    is_normal = emit.b.icmp_unsigned(">", e, splat(emit.dwords_type, 1))
    field = emit.b.select(
        is_normal, emit.b.sub(e, splat(emit.dwords_type, 1)), splat(emit.dwords_type, 0)
    )
    scale = emit.b.bitcast(emit.b.shl(field, splat(emit.dwords_type, 23)), emit.floats_type)
    vectors = _through_table(emit, E2M1, _nibbles(emit, emit.columns16(rows, 1)))
    return Block(iter([(0, vectors)]), _constant(scale))


def strips(isa: Isa) -> dict[int, Strip]:
    """Readers by ggml type id, for a processor."""
    signed = signed_domain(isa)
    rows = {
        "Q4_0": Strip(Domain(8, 15), _q4_0),
        "Q4_1": Strip(Domain(0, 15), _q4_1),
        "Q5_0": Strip(Domain(16, 31), _q5_0),
        "Q5_1": Strip(Domain(0, 31), _q5_1),
        "Q8_0": Strip(signed, _q8_0),
        "Q2_K": Strip(Domain(0, 3), _q2_k),
        "Q3_K": Strip(Domain(4, 7), _q3_k),
        "Q4_K": Strip(Domain(0, 15), _q4_k),
        "Q5_K": Strip(Domain(0, 31), _q5_k),
        "Q6_K": Strip(Domain(32, 63), _q6_k),
        "TQ2_0": Strip(Domain(1, 3), _tq2_0),
        "IQ4_NL": Strip(signed, _iq4_nl),
        "IQ4_XS": Strip(signed, _iq4_xs),
        "MXFP4": Strip(signed, _mxfp4),
    }
    return {by_name(name).type_id: strip for name, strip in rows.items()}
