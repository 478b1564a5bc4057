"""Readers of IQ4_NL, IQ4_XS, MXFP4 and NVFP4: four-bit codes into sixteen values."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from edgellm.kernels.cpu.domain import signed_domain
from edgellm.kernels.cpu.emit import Emit, splat
from edgellm.kernels.cpu.isa import Isa
from edgellm.kernels.cpu.strips.lookups import gather, lookup
from edgellm.kernels.cpu.strips.strip import Block, Group, Strip, constant, nibbles
from edgellm.kernels.formats.codebook import E2M1, IQ4
from edgellm.kernels.formats.fp4 import UE4M3


def _through_table(emit: Emit, table: Any, indices: list[Any]) -> list[Any]:
    """table values in the signed domain of this processor."""
    offset = signed_domain(emit.isa).offset
    return [lookup(emit, [(int(v) + offset) & 255 for v in table], i) for i in indices]


def _iq4_nl(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 0)
    vectors = _through_table(emit, IQ4, nibbles(emit, emit.columns16(rows, 2)))
    return Block(iter([(0, vectors)]), constant(scale))


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
            codes = nibbles(emit, emit.columns16(rows, 8 + 16 * i))
            yield i, _through_table(emit, IQ4, codes)

    return Block(groups(), scale)


def _mxfp4(emit: Emit, rows: list[Any]) -> Block:
    # 2^(e - 128): the exponent field is e - 1; what would be denormal is 0 in our float mode.
    e = emit.bytes_at(rows, 0)
    is_normal = emit.b.icmp_unsigned(">", e, splat(emit.dwords_type, 1))
    field = emit.b.select(
        is_normal, emit.b.sub(e, splat(emit.dwords_type, 1)), splat(emit.dwords_type, 0)
    )
    scale = emit.b.bitcast(emit.b.shl(field, splat(emit.dwords_type, 23)), emit.floats_type)
    vectors = _through_table(emit, E2M1, nibbles(emit, emit.columns16(rows, 1)))
    return Block(iter([(0, vectors)]), constant(scale))


def _nvfp4(emit: Emit, rows: list[Any]) -> Block:
    b = emit.b
    codes = emit.dwords(rows, 0)
    scales = [int(word) for word in UE4M3.view(np.uint32)]

    def scale(i: int) -> Any:
        return b.bitcast(gather(emit, scales, emit.field(codes, 8 * i, 8)), emit.floats_type)

    def groups() -> Iterator[Group]:
        for half in range(2):
            columns = emit.columns16(rows, 4 + 16 * half)
            for g in range(2):
                pair = columns[2 * g : 2 * g + 2]
                yield 2 * half + g, _through_table(emit, E2M1, nibbles(emit, pair))

    return Block(groups(), scale)


def strips(isa: Isa) -> dict[str, Strip]:
    """Readers by the name of their format."""
    signed = signed_domain(isa)
    return {
        "IQ4_NL": Strip(signed, _iq4_nl, is_bytewise=True),
        "IQ4_XS": Strip(signed, _iq4_xs, is_bytewise=True),
        "MXFP4": Strip(signed, _mxfp4, is_bytewise=True),
        "NVFP4": Strip(signed, _nvfp4),
    }
