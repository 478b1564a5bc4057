"""Loads and stores of vectors inside Numba-compiled functions, and transposes in memory.

Imported only when something has to be compiled.
"""

from typing import Any

from llvmlite import ir
from numba.core import types

from edgellm.kernels.cpu.halves import narrow, widen
from edgellm.kernels.cpu.isa import host_isa
from edgellm.kernels.cpu.vectors import (
    F32,
    I8,
    I16,
    I32,
    I64,
    emit_call,
    f32x8,
    fixed_intrinsic,
    i32x8,
    pick_lanes,
    splat_scalar,
    typed_address,
)

_I16X8 = ir.VectorType(I16, 8)


def _lane_mask(builder: Any, count: Any, lanes: int = 8) -> Any:
    ids = ir.Constant(ir.VectorType(I64, lanes), list(range(lanes)))
    return builder.icmp_signed("<", ids, splat_scalar(builder, count, lanes))


def _load_i16_head(b: Any, address: Any, count: Any) -> Any:
    place = typed_address(b, address, _I16X8)
    args = [place, I32(2), _lane_mask(b, count), ir.Constant(_I16X8, [0] * 8)]
    return emit_call(b, "llvm.masked.load.v8i16.p0", _I16X8, args)


@fixed_intrinsic(f32x8, types.int64)
def load_f32(b: Any, address: Any) -> Any:
    """Eight float32 from any address."""
    value = b.load(typed_address(b, address, f32x8.llvm))
    value.align = 4
    return value


@fixed_intrinsic(types.void, types.int64, f32x8)
def store_f32(b: Any, address: Any, value: Any) -> None:
    """Eight float32 to any address."""
    b.store(value, typed_address(b, address, f32x8.llvm)).align = 4


@fixed_intrinsic(f32x8, types.int64, types.int64)
def load_f32_head(b: Any, address: Any, count: Any) -> Any:
    """The first `count` of eight float32; the others are 0 and their memory is not touched."""
    place = typed_address(b, address, f32x8.llvm)
    zero = ir.Constant(f32x8.llvm, [0.0] * 8)
    args = [place, I32(4), _lane_mask(b, count), zero]
    return emit_call(b, "llvm.masked.load.v8f32.p0", f32x8.llvm, args)


@fixed_intrinsic(types.void, types.int64, f32x8, types.int64)
def store_f32_head(b: Any, address: Any, value: Any, count: Any) -> None:
    """Stores the first `count` lanes only."""
    place = typed_address(b, address, f32x8.llvm)
    args = [value, place, I32(4), _lane_mask(b, count)]
    emit_call(b, "llvm.masked.store.v8f32.p0", ir.VoidType(), args)


@fixed_intrinsic(f32x8, types.int64)
def load_f16(b: Any, address: Any) -> Any:
    """Eight halves, widened."""
    value = b.load(typed_address(b, address, _I16X8))
    value.align = 2
    return widen(b, value, host_isa())


@fixed_intrinsic(types.void, types.int64, f32x8)
def store_f16(b: Any, address: Any, value: Any) -> None:
    """Eight float32 rounded to halves (to nearest even)."""
    b.store(narrow(b, value, host_isa()), typed_address(b, address, _I16X8)).align = 2


@fixed_intrinsic(f32x8, types.int64, types.int64)
def load_f16_head(b: Any, address: Any, count: Any) -> Any:
    """The first `count` of eight halves, widened; the others are 0 and not touched."""
    return widen(b, _load_i16_head(b, address, count), host_isa())


@fixed_intrinsic(f32x8, types.int64, types.int64)
def load_bf16_head(b: Any, address: Any, count: Any) -> Any:
    """The first `count` of eight bfloat16, widened; the others are 0 and not touched."""
    wide = b.zext(_load_i16_head(b, address, count), i32x8.llvm)
    return b.bitcast(b.shl(wide, ir.Constant(i32x8.llvm, [16] * 8)), f32x8.llvm)


@fixed_intrinsic(types.void, types.int64, f32x8, types.int64)
def store_f16_head(b: Any, address: Any, value: Any, count: Any) -> None:
    """Stores the first `count` lanes as halves (to nearest even)."""
    args = [
        narrow(b, value, host_isa()),
        typed_address(b, address, _I16X8),
        I32(2),
        _lane_mask(b, count),
    ]
    emit_call(b, "llvm.masked.store.v8i16.p0", ir.VoidType(), args)


@fixed_intrinsic(f32x8, types.int64)
def load_bf16(b: Any, address: Any) -> Any:
    """Eight bfloat16, widened."""
    value = b.load(typed_address(b, address, ir.VectorType(I16, 8)))
    value.align = 2
    wide = b.zext(value, i32x8.llvm)
    return b.bitcast(b.shl(wide, ir.Constant(i32x8.llvm, [16] * 8)), f32x8.llvm)


def _bytes(b: Any, address: Any) -> Any:
    value = b.load(typed_address(b, address, ir.VectorType(I8, 8)))
    value.align = 1
    return value


@fixed_intrinsic(f32x8, types.int64)
def load_i8(b: Any, address: Any) -> Any:
    """Eight int8 as floats."""
    return b.sitofp(b.sext(_bytes(b, address), i32x8.llvm), f32x8.llvm)


@fixed_intrinsic(f32x8, types.int64)
def load_low_nibbles(b: Any, address: Any) -> Any:
    """The low four bits of eight bytes as floats."""
    wide = b.zext(_bytes(b, address), i32x8.llvm)
    return b.sitofp(b.and_(wide, ir.Constant(i32x8.llvm, [15] * 8)), f32x8.llvm)


@fixed_intrinsic(f32x8, types.int64)
def load_high_nibbles(b: Any, address: Any) -> Any:
    """The high four bits of eight bytes as floats."""
    wide = b.zext(_bytes(b, address), i32x8.llvm)
    return b.sitofp(b.lshr(wide, ir.Constant(i32x8.llvm, [4] * 8)), f32x8.llvm)


@fixed_intrinsic(types.void, types.int64, types.float32)
def store_f32_one(b: Any, address: Any, value: Any) -> None:
    """One float32."""
    b.store(value, typed_address(b, address, F32)).align = 4


@fixed_intrinsic(types.void, types.int64, types.float32)
def store_f16_one(b: Any, address: Any, value: Any) -> None:
    """One float32 rounded to a half (to nearest even)."""
    b.store(narrow(b, value, host_isa()), typed_address(b, address, I16)).align = 2


@fixed_intrinsic(types.void, types.int64, i32x8)
def store_i32_as_i8(b: Any, address: Any, value: Any) -> None:
    """Eight integers in -128..127 as bytes."""
    narrow = ir.VectorType(I8, 8)
    b.store(b.trunc(value, narrow), typed_address(b, address, narrow)).align = 1


def _transpose_rows(b: Any, rows: list[Any]) -> list[Any]:
    """Eight i32x8 rows to eight columns: swap at distances 1, 2 and 4."""
    for step in (1, 2, 4):
        merged = list(rows)
        for i in range(8):
            if i & step:
                continue
            low, high = rows[i], rows[i + step]
            keep = [(j if not j & step else j - step + 8) for j in range(8)]
            move = [(j + step if not j & step else j + 8) for j in range(8)]
            merged[i], merged[i + step] = (
                pick_lanes(b, low, high, keep),
                pick_lanes(b, low, high, move),
            )
        rows = merged
    return rows


@fixed_intrinsic(types.void, types.int64, types.int64, types.int64, types.int64)
def transpose_f32(b: Any, source: Any, stride: Any, target: Any, target_stride: Any) -> None:
    """Eight rows of eight float32, `stride` bytes apart, to eight rows that are their columns."""
    rows = []
    for i in range(8):
        row = b.load(typed_address(b, b.add(source, b.mul(stride, I64(i))), i32x8.llvm))
        row.align = 4
        rows.append(row)
    for i, column in enumerate(_transpose_rows(b, rows)):
        place = b.add(target, b.mul(target_stride, I64(i)))
        b.store(column, typed_address(b, place, i32x8.llvm)).align = 4


@fixed_intrinsic(types.void, types.int64, types.int64, types.int64, types.int64)
def interleave_rows(b: Any, source: Any, stride: Any, target: Any, target_stride: Any) -> None:
    """Eight rows of 32 bytes, `stride` apart, to eight vectors ordered (k / 4, row, k % 4).

    Where the processor multiplies any unsigned byte by a signed one, 128 is added to each.
    """
    rows = []
    for i in range(8):
        row = b.load(typed_address(b, b.add(source, b.mul(stride, I64(i))), i32x8.llvm))
        row.align = 1
        rows.append(row)
    flip = 0x80808080 if host_isa().has_vnni else 0
    for i, column in enumerate(_transpose_rows(b, rows)):
        value = b.xor(column, ir.Constant(i32x8.llvm, [flip] * 8))
        place = b.add(target, b.mul(target_stride, I64(i)))
        b.store(value, typed_address(b, place, i32x8.llvm)).align = 4
