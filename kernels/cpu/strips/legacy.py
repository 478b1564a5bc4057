"""Readers of Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0; layouts in `formats/legacy.py`."""

from typing import Any

from edgellm.kernels.cpu.domain import Domain, signed_domain
from edgellm.kernels.cpu.emit import Emit
from edgellm.kernels.cpu.isa import Isa
from edgellm.kernels.cpu.strips.strip import Block, Strip, constant, nibbles


def _q4_0(emit: Emit, rows: list[Any]) -> Block:
    vectors = nibbles(emit, emit.columns16(rows, 2))
    return Block(iter([(0, vectors)]), constant(emit.head_half(rows, 0)))


def _q4_1(emit: Emit, rows: list[Any]) -> Block:
    vectors = nibbles(emit, emit.columns16(rows, 4))
    scale, minimum = (constant(emit.head_half(rows, offset)) for offset in (0, 2))
    return Block(iter([(0, vectors)]), scale, minimum)


def _five_bits(emit: Emit, high: list[Any], low: list[Any]) -> list[Any]:
    return [emit.b.or_(v, bit) for v, bit in zip(low, high, strict=True)]


def _q5_0(emit: Emit, rows: list[Any]) -> Block:
    low = nibbles(emit, emit.columns16(rows, 6))
    vectors = _five_bits(emit, emit.head_bits(rows, 2), low)
    return Block(iter([(0, vectors)]), constant(emit.head_half(rows, 0)))


def _q5_1(emit: Emit, rows: list[Any]) -> Block:
    low = nibbles(emit, emit.columns16(rows, 8))
    vectors = _five_bits(emit, emit.head_bits(rows, 4), low)
    scale, minimum = (constant(emit.head_half(rows, offset)) for offset in (0, 2))
    return Block(iter([(0, vectors)]), scale, minimum)


def _as_stored(emit: Emit, vectors: list[Any]) -> list[Any]:
    """int8 vectors in the signed domain of this processor."""
    is_signed = signed_domain(emit.isa).is_signed
    return vectors if is_signed else [emit.flip_sign_bit(v) for v in vectors]


def _q8_0(emit: Emit, rows: list[Any]) -> Block:
    vectors = _as_stored(emit, emit.columns32(rows, 2))
    return Block(iter([(0, vectors)]), constant(emit.head_half(rows, 0)))


def strips(isa: Isa) -> dict[str, Strip]:
    """Readers by the name of their format."""
    return {
        "Q4_0": Strip(Domain(8, 15), _q4_0, is_bytewise=True),
        "Q4_1": Strip(Domain(0, 15), _q4_1, is_bytewise=True),
        "Q5_0": Strip(Domain(16, 31), _q5_0, is_bytewise=True),
        "Q5_1": Strip(Domain(0, 31), _q5_1, is_bytewise=True),
        "Q8_0": Strip(signed_domain(isa), _q8_0, is_bytewise=True),
    }
