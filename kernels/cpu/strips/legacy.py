"""Readers of Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0; layouts in `formats/legacy.py`."""

from typing import Any

from edgellm.kernels.cpu.emit import Domain, Emit, signed_domain, splat
from edgellm.kernels.cpu.isa import Isa
from edgellm.kernels.cpu.strips.strip import Block, Strip, constant, nibbles


def _q4_0(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 0)
    return Block(iter([(0, nibbles(emit, emit.columns16(rows, 2)))]), constant(scale))


def _q4_1(emit: Emit, rows: list[Any]) -> Block:
    head = emit.dwords(rows, 0)
    return Block(
        iter([(0, nibbles(emit, emit.columns16(rows, 4)))]),
        constant(emit.low_half(head)),
        constant(emit.high_half(head)),
    )


def _five_bits(emit: Emit, high: Any, low: list[Any]) -> list[Any]:
    """Bit j of 32 above number j of 32 nibbles."""
    return [emit.b.or_(v, bit) for v, bit in zip(low, emit.spread_bits(high), strict=True)]


def _q5_0(emit: Emit, rows: list[Any]) -> Block:
    b, sixteen = emit.b, splat(emit.dwords_type, 16)
    first, second, *_ = emit.heads(rows, 0)  # the scale, 32 high bits, then the nibbles
    high = b.or_(b.lshr(first, sixteen), b.shl(second, sixteen))
    vectors = _five_bits(emit, high, nibbles(emit, emit.columns16(rows, 6)))
    return Block(iter([(0, vectors)]), constant(emit.low_half(first)))


def _q5_1(emit: Emit, rows: list[Any]) -> Block:
    head, high, *_ = emit.heads(rows, 0)
    return Block(
        iter([(0, _five_bits(emit, high, nibbles(emit, emit.columns16(rows, 8))))]),
        constant(emit.low_half(head)),
        constant(emit.high_half(head)),
    )


def _as_stored(emit: Emit, vectors: list[Any]) -> list[Any]:
    """int8 vectors in the signed domain of this processor."""
    is_signed = signed_domain(emit.isa).is_signed
    return vectors if is_signed else [emit.flip_sign_bit(v) for v in vectors]


def _q8_0(emit: Emit, rows: list[Any]) -> Block:
    scale = emit.halves(rows, 0)
    vectors = _as_stored(emit, emit.columns32(rows, 2))
    return Block(iter([(0, vectors)]), constant(scale))


def strips(isa: Isa) -> dict[str, Strip]:
    """Readers by the name of their format."""
    return {
        "Q4_0": Strip(Domain(8, 15), _q4_0),
        "Q4_1": Strip(Domain(0, 15), _q4_1),
        "Q5_0": Strip(Domain(16, 31), _q5_0),
        "Q5_1": Strip(Domain(0, 31), _q5_1),
        "Q8_0": Strip(signed_domain(isa), _q8_0),
    }
