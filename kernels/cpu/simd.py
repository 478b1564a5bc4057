"""Arithmetic on vectors and scalars inside Numba-compiled functions.

Single instructions or short fixed sequences. Imported only when something has to be compiled.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from edgellm.kernels.cpu.halves import widen
from edgellm.kernels.cpu.isa import host_isa
from edgellm.kernels.cpu.vectors import (
    F32,
    I8,
    I16,
    I32,
    I64,
    Pointer,
    emit_call,
    f32x8,
    fixed_intrinsic,
    i32x8,
    pick_lanes,
    splat_scalar,
)


@intrinsic
def pointer(typingctx: Any, address: Any, dtype: Any) -> Any:
    """The integer `address` as a Pointer to elements of `dtype`."""
    kind = Pointer(dtype.dtype)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(kind))

    return kind(types.int64, dtype), codegen


@intrinsic
def translate8(typingctx: Any, word: Any, values: Any) -> Any:
    """codebook.translate8 for a constant array of 16 int8 `values`: one byte shuffle."""
    codes = ir.VectorType(I8, 16)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[1])(context, builder, args[1])
        table = builder.load(builder.bitcast(array.data, codes.as_pointer()))
        table.align = 1
        pair = ir.Constant(ir.VectorType(I64, 2), [0, 0])
        index = builder.bitcast(builder.insert_element(pair, args[0], I32(0)), codes)
        picked = emit_call(builder, "llvm.x86.ssse3.pshuf.b.128", codes, [table, index])
        return builder.extract_element(builder.bitcast(picked, pair.type), I32(0))

    return types.int64(types.int64, values), codegen


@intrinsic
def offset(typingctx: Any, base: Any, count: Any) -> Any:
    """The Pointer `count` elements later."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.gep(args[0], [args[1]])

    return base(base, types.int64), codegen


@fixed_intrinsic(types.float32, types.int64, types.int64)
def half_bytes(b: Any, low: Any, high: Any) -> Any:
    """The IEEE half made of two bytes, as float32."""
    word = b.or_(b.trunc(low, I16), b.shl(b.trunc(high, I16), I16(8)))
    return widen(b, word, host_isa())


@fixed_intrinsic(types.float32, types.int64)
def bits_to_f32(b: Any, word: Any) -> Any:
    """The float32 whose bits are the low half of `word`."""
    return b.bitcast(b.trunc(word, I32), F32)


@fixed_intrinsic(types.float32, types.float32)
def sqrt_scalar(b: Any, x: Any) -> Any:
    """Square root, correctly rounded."""
    return emit_call(b, "llvm.sqrt.f32", F32, [x])


@fixed_intrinsic(f32x8, types.float32)
def splat_f32(b: Any, scalar: Any) -> Any:
    """The scalar in all lanes."""
    return splat_scalar(b, scalar, 8)


@fixed_intrinsic(f32x8, f32x8, f32x8, f32x8)
def fma(b: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once."""
    return emit_call(b, "llvm.fma.v8f32", f32x8.llvm, [x, y, z])


@fixed_intrinsic(f32x8, f32x8, f32x8)
def maximum(b: Any, x: Any, y: Any) -> Any:
    """Lane-wise larger value; y where x is NaN."""
    return b.select(b.fcmp_ordered(">", x, y), x, y)


@fixed_intrinsic(f32x8, f32x8, f32x8)
def minimum(b: Any, x: Any, y: Any) -> Any:
    """Lane-wise smaller value; y where x is NaN."""
    return b.select(b.fcmp_ordered("<", x, y), x, y)


@fixed_intrinsic(f32x8, f32x8)
def absolute(b: Any, x: Any) -> Any:
    """Lane-wise magnitude."""
    return emit_call(b, "llvm.fabs.v8f32", f32x8.llvm, [x])


@fixed_intrinsic(f32x8, f32x8)
def round_even(b: Any, x: Any) -> Any:
    """To the nearest integer, halves to even."""
    return emit_call(b, "llvm.roundeven.v8f32", f32x8.llvm, [x])


@fixed_intrinsic(i32x8, f32x8)
def to_i32(b: Any, x: Any) -> Any:
    """Integers of integral values."""
    return b.fptosi(x, i32x8.llvm)


@fixed_intrinsic(types.float32, f32x8)
def sum_lanes(b: Any, x: Any) -> Any:
    """Sum by the fixed tree ((0+4)+(2+6)) + ((1+5)+(3+7))."""
    for half in (4, 2, 1):
        other = pick_lanes(b, x, x, [i + half for i in range(half)])
        x = b.fadd(pick_lanes(b, x, x, list(range(half))), other)
    return b.extract_element(x, I32(0))


@fixed_intrinsic(types.float32, f32x8)
def first_lane(b: Any, x: Any) -> Any:
    """Lane 0."""
    return b.extract_element(x, I32(0))


@fixed_intrinsic(types.float32, f32x8)
def max_lanes(b: Any, x: Any) -> Any:
    """Largest lane."""
    for half in (4, 2, 1):
        low = pick_lanes(b, x, x, list(range(half)))
        high = pick_lanes(b, x, x, [i + half for i in range(half)])
        x = b.select(b.fcmp_ordered(">", low, high), low, high)
    return b.extract_element(x, I32(0))


@fixed_intrinsic(types.int64, i32x8)
def sum_lanes_i32(b: Any, x: Any) -> Any:
    """Sum of all lanes."""
    for half in (4, 2, 1):
        other = pick_lanes(b, x, x, [i + half for i in range(half)])
        x = b.add(pick_lanes(b, x, x, list(range(half))), other)
    return b.sext(b.extract_element(x, I32(0)), I64)
