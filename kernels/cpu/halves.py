"""IEEE halves to float32 and back, with the processor's instructions or without.

Takes and gives halves as 16-bit integers, one or a vector. Bits are the same either way.
Imported only when something has to be compiled.
"""

from functools import partial
from typing import Any

from llvmlite import ir

from edgellm.kernels.cpu.isa import Isa

F32 = ir.FloatType()
_BIAS = (127 - 15) << 23  # between the exponents of the two, in place
_INFINITY = 0x7F800000


def _like(kind: Any, element: ir.Type) -> Any:
    """`element`, in as many lanes as `kind` has."""
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element


def _constant(kind: Any, value: Any) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def widen(b: Any, words: Any, isa: Isa) -> Any:
    """float32 of halves; exact."""
    floats = _like(words.type, F32)
    if isa.has_half:
        return b.fpext(b.bitcast(words, _like(words.type, ir.HalfType())), floats)
    kind = _like(words.type, ir.IntType(32))
    c = partial(_constant, kind)
    wide = b.zext(words, kind)
    sign, rest = b.shl(b.and_(wide, c(0x8000)), c(16)), b.and_(wide, c(0x7FFF))
    normal = b.add(b.shl(rest, c(13)), c(_BIAS))
    endless = b.or_(b.shl(rest, c(13)), c(_INFINITY))
    endless = b.select(b.icmp_unsigned(">", rest, c(0x7C00)), b.or_(endless, c(1 << 22)), endless)
    # Below 2^-14 a half is a whole number of 2^-24.
    small = b.bitcast(b.fmul(b.sitofp(rest, floats), _constant(floats, 2.0**-24)), kind)
    value = b.select(b.icmp_unsigned("<", rest, c(0x400)), small, normal)
    value = b.select(b.icmp_unsigned("<", rest, c(0x7C00)), value, endless)
    return b.bitcast(b.or_(value, sign), floats)


def narrow(b: Any, floats: Any, isa: Isa) -> Any:
    """Halves of float32, rounded to nearest even."""
    words = _like(floats.type, ir.IntType(16))
    if isa.has_half:
        return b.bitcast(b.fptrunc(floats, _like(floats.type, ir.HalfType())), words)
    kind = _like(floats.type, ir.IntType(32))
    c = partial(_constant, kind)
    bits = b.bitcast(floats, kind)
    sign, rest = b.and_(b.lshr(bits, c(16)), c(0x8000)), b.and_(bits, c(0x7FFFFFFF))
    odd = b.and_(b.lshr(rest, c(13)), c(1))
    normal = b.lshr(b.add(b.sub(rest, c(_BIAS)), b.add(odd, c(0xFFF))), c(13))
    # 0.5 has a unit of 2^-24, that of the smallest halves: adding it rounds to one.
    sum_ = b.fadd(b.bitcast(rest, floats.type), _constant(floats.type, 0.5))
    small = b.sub(b.bitcast(sum_, kind), c(126 << 23))
    nan = b.or_(c(0x7E00), b.and_(b.lshr(rest, c(13)), c(0x3FF)))
    endless = b.select(b.icmp_unsigned(">", rest, c(_INFINITY)), nan, c(0x7C00))
    value = b.select(b.icmp_unsigned("<", rest, c((127 - 14) << 23)), small, normal)
    value = b.select(b.icmp_unsigned("<", rest, c((127 + 16) << 23)), value, endless)
    return b.trunc(b.or_(value, sign), words)
