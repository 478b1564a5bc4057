"""SIMD vectors and raw pointers inside Numba-compiled functions.

Vector types (`f32x8`, `i32x8`) are held in registers and support + - * on equal types;
the functions below are single instructions or short fixed sequences. `Pointer` is an address with
an element type that supports p[i] and p[i] = v, nothing else. Nothing here rounds implicitly:
multiply-adds are fused only where `fma` is called.

Imported only when something has to be compiled.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from edgellm.kernels.cpu.halves import narrow, widen
from edgellm.kernels.cpu.isa import host_isa

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32 = ir.FloatType()
_ELEMENTS = {"i8": I8, "i16": I16, "i32": I32, "f32": F32}
_IS_FLOAT = {"f32"}


class Vector(types.Type):  # type: ignore[misc]
    """A fixed number of equal elements in one register."""

    def __init__(self, element: str, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        super().__init__(name=f"{element}x{lanes}")

    @property
    def llvm(self) -> ir.VectorType:
        return ir.VectorType(_ELEMENTS[self.element], self.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.llvm)


class Pointer(types.Type):  # type: ignore[misc]
    """An address of elements of a Numba scalar type."""

    def __init__(self, dtype: types.Type) -> None:
        self.dtype = dtype
        super().__init__(name=f"pointer({dtype})")


@register_model(Pointer)
class _PointerModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, pointer: Pointer) -> None:
        element = manager.lookup(pointer.dtype).get_data_type()
        super().__init__(manager, pointer, element.as_pointer())


f32x8 = Vector("f32", 8)
i32x8 = Vector("i32", 8)

# ---------------------------------------------------------------- operators


def _register_operator(op: Callable[..., Any], for_ints: str, for_floats: str) -> None:
    @infer_global(op)
    class _Typing(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == 2 and isinstance(args[0], Vector) and args[0] == args[1]:
                return signature(args[0], *args)
            return None

    @lower_builtin(op, Vector, Vector)
    def _lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = for_floats if sig.return_type.element in _IS_FLOAT else for_ints
        return getattr(builder, name)(*args)


for _op, _ints, _floats in (
    (operator.add, "add", "fadd"),
    (operator.sub, "sub", "fsub"),
    (operator.mul, "mul", "fmul"),
    (operator.truediv, "sdiv", "fdiv"),
    (operator.and_, "and_", "and_"),
):
    _register_operator(_op, _ints, _floats)


@infer_global(operator.getitem)
class _PointerGet(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], Pointer) and isinstance(args[1], types.Integer):
            return signature(args[0].dtype, args[0], types.int64)
        return None


@infer_global(operator.setitem)
class _PointerSet(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if isinstance(args[0], Pointer) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], types.int64, args[0].dtype)
        return None


@lower_builtin(operator.getitem, Pointer, types.Integer)
def _lower_get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(builder.gep(args[0], [args[1]]))


@lower_builtin(operator.setitem, Pointer, types.Integer, types.Any)
def _lower_set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(args[2], builder.gep(args[0], [args[1]]))
    return context.get_dummy_value()


# ---------------------------------------------------------------- helpers to write intrinsics


def emit_call(builder: Any, name: str, result: ir.Type, args: Any, kinds: Any = None) -> Any:
    kinds = [a.type for a in args] if kinds is None else kinds
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, kinds), name)
    return builder.call(function, args)


def prefetch(builder: Any, address: Any, level: int) -> None:
    """Asks for a line, to be kept in the cache of this level, 1 to 3, and those above."""
    byte = builder.inttoptr(address, I8.as_pointer())
    emit_call(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, I32(0), I32(4 - level), I32(1)])


def _address(builder: Any, value: Any, element: ir.Type) -> Any:
    return builder.inttoptr(value, element.as_pointer())


def _splat(builder: Any, scalar: Any, lanes: int) -> Any:
    empty = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    one = builder.insert_element(empty, scalar, I32(0))
    return builder.shuffle_vector(one, empty, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))


def _pick(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


def _lane_mask(builder: Any, count: Any, lanes: int = 8) -> Any:
    ids = ir.Constant(ir.VectorType(I64, lanes), list(range(lanes)))
    return builder.icmp_signed("<", ids, _splat(builder, count, lanes))


_I16X8 = ir.VectorType(I16, 8)


def _load_i16_head(b: Any, address: Any, count: Any) -> Any:
    place = _address(b, address, _I16X8)
    args = [place, I32(2), _lane_mask(b, count), ir.Constant(_I16X8, [0] * 8)]
    return emit_call(b, "llvm.masked.load.v8i16.p0", _I16X8, args)


def fixed_intrinsic(result: Any, *params: Any) -> Callable[[Callable[..., Any]], Any]:
    """Declares `body(builder, *llvm_args)` as a Numba function of fixed types."""

    def wrap(body: Callable[..., Any]) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = body(builder, *args)
            return context.get_dummy_value() if value is None else value

        # Numba inspects the parameter list, so it has to have the right length.
        names = ", ".join(f"p{i}" for i in range(len(params)))
        scope: dict[str, Any] = {"sig": result(*params), "codegen": codegen}
        exec(f"def typer(typingctx, {names}):\n    return sig, codegen", scope)
        scope["typer"].__name__ = body.__name__
        scope["typer"].__doc__ = body.__doc__
        return intrinsic(scope["typer"])

    return wrap


# ---------------------------------------------------------------- pointers and scalars


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


# ---------------------------------------------------------------- float vectors


@fixed_intrinsic(f32x8, types.int64)
def load_f32(b: Any, address: Any) -> Any:
    """Eight float32 from any address."""
    value = b.load(_address(b, address, f32x8.llvm))
    value.align = 4
    return value


@fixed_intrinsic(types.void, types.int64, f32x8)
def store_f32(b: Any, address: Any, value: Any) -> None:
    """Eight float32 to any address."""
    b.store(value, _address(b, address, f32x8.llvm)).align = 4


@fixed_intrinsic(f32x8, types.int64, types.int64)
def load_f32_head(b: Any, address: Any, count: Any) -> Any:
    """The first `count` of eight float32; the others are 0 and their memory is not touched."""
    place = _address(b, address, f32x8.llvm)
    zero = ir.Constant(f32x8.llvm, [0.0] * 8)
    args = [place, I32(4), _lane_mask(b, count), zero]
    return emit_call(b, "llvm.masked.load.v8f32.p0", f32x8.llvm, args)


@fixed_intrinsic(types.void, types.int64, f32x8, types.int64)
def store_f32_head(b: Any, address: Any, value: Any, count: Any) -> None:
    """Stores the first `count` lanes only."""
    place = _address(b, address, f32x8.llvm)
    args = [value, place, I32(4), _lane_mask(b, count)]
    emit_call(b, "llvm.masked.store.v8f32.p0", ir.VoidType(), args)


@fixed_intrinsic(f32x8, types.int64)
def load_f16(b: Any, address: Any) -> Any:
    """Eight halves, widened."""
    value = b.load(_address(b, address, _I16X8))
    value.align = 2
    return widen(b, value, host_isa())


@fixed_intrinsic(types.void, types.int64, f32x8)
def store_f16(b: Any, address: Any, value: Any) -> None:
    """Eight float32 rounded to halves (to nearest even)."""
    b.store(narrow(b, value, host_isa()), _address(b, address, _I16X8)).align = 2


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
        _address(b, address, _I16X8),
        I32(2),
        _lane_mask(b, count),
    ]
    emit_call(b, "llvm.masked.store.v8i16.p0", ir.VoidType(), args)


@fixed_intrinsic(f32x8, types.int64)
def load_bf16(b: Any, address: Any) -> Any:
    """Eight bfloat16, widened."""
    value = b.load(_address(b, address, ir.VectorType(I16, 8)))
    value.align = 2
    wide = b.zext(value, i32x8.llvm)
    return b.bitcast(b.shl(wide, ir.Constant(i32x8.llvm, [16] * 8)), f32x8.llvm)


def _bytes(b: Any, address: Any) -> Any:
    value = b.load(_address(b, address, ir.VectorType(I8, 8)))
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
    b.store(value, _address(b, address, F32)).align = 4


@fixed_intrinsic(types.void, types.int64, types.float32)
def store_f16_one(b: Any, address: Any, value: Any) -> None:
    """One float32 rounded to a half (to nearest even)."""
    b.store(narrow(b, value, host_isa()), _address(b, address, I16)).align = 2


@fixed_intrinsic(f32x8, types.float32)
def splat_f32(b: Any, scalar: Any) -> Any:
    """The scalar in all lanes."""
    return _splat(b, scalar, 8)


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


@fixed_intrinsic(f32x8, i32x8)
def power_of_two(b: Any, exponent: Any) -> Any:
    """2 ** exponent for -126 <= exponent <= 127."""
    biased = b.add(exponent, ir.Constant(i32x8.llvm, [127] * 8))
    return b.bitcast(b.shl(biased, ir.Constant(i32x8.llvm, [23] * 8)), f32x8.llvm)


@fixed_intrinsic(types.float32, f32x8)
def sum_lanes(b: Any, x: Any) -> Any:
    """Sum by the fixed tree ((0+4)+(2+6)) + ((1+5)+(3+7))."""
    for half in (4, 2, 1):
        other = _pick(b, x, x, [i + half for i in range(half)])
        x = b.fadd(_pick(b, x, x, list(range(half))), other)
    return b.extract_element(x, I32(0))


@fixed_intrinsic(types.float32, f32x8)
def first_lane(b: Any, x: Any) -> Any:
    """Lane 0."""
    return b.extract_element(x, I32(0))


@fixed_intrinsic(types.float32, f32x8)
def max_lanes(b: Any, x: Any) -> Any:
    """Largest lane."""
    for half in (4, 2, 1):
        low = _pick(b, x, x, list(range(half)))
        high = _pick(b, x, x, [i + half for i in range(half)])
        x = b.select(b.fcmp_ordered(">", low, high), low, high)
    return b.extract_element(x, I32(0))


# ---------------------------------------------------------------- integer vectors


@fixed_intrinsic(types.int64, i32x8)
def sum_lanes_i32(b: Any, x: Any) -> Any:
    """Sum of all lanes."""
    for half in (4, 2, 1):
        other = _pick(b, x, x, [i + half for i in range(half)])
        x = b.add(_pick(b, x, x, list(range(half))), other)
    return b.sext(b.extract_element(x, I32(0)), I64)


@fixed_intrinsic(types.void, types.int64, i32x8)
def store_i32_as_i8(b: Any, address: Any, value: Any) -> None:
    """Eight integers in -128..127 as bytes."""
    narrow = ir.VectorType(I8, 8)
    b.store(b.trunc(value, narrow), _address(b, address, narrow)).align = 1


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
            merged[i], merged[i + step] = _pick(b, low, high, keep), _pick(b, low, high, move)
        rows = merged
    return rows


@fixed_intrinsic(types.void, types.int64, types.int64, types.int64, types.int64)
def transpose_f32(b: Any, source: Any, stride: Any, target: Any, target_stride: Any) -> None:
    """Eight rows of eight float32, `stride` bytes apart, to eight rows that are their columns."""
    rows = []
    for i in range(8):
        row = b.load(_address(b, b.add(source, b.mul(stride, I64(i))), i32x8.llvm))
        row.align = 4
        rows.append(row)
    for i, column in enumerate(_transpose_rows(b, rows)):
        place = b.add(target, b.mul(target_stride, I64(i)))
        b.store(column, _address(b, place, i32x8.llvm)).align = 4


@fixed_intrinsic(types.void, types.int64, types.int64, types.int64, types.int64)
def interleave_rows(b: Any, source: Any, stride: Any, target: Any, target_stride: Any) -> None:
    """Eight rows of 32 bytes, `stride` apart, to eight vectors ordered (k / 4, row, k % 4).

    Where the processor multiplies any unsigned byte by a signed one, 128 is added to each.
    """
    rows = []
    for i in range(8):
        row = b.load(_address(b, b.add(source, b.mul(stride, I64(i))), i32x8.llvm))
        row.align = 1
        rows.append(row)
    flip = 0x80808080 if host_isa().has_vnni else 0
    for i, column in enumerate(_transpose_rows(b, rows)):
        value = b.xor(column, ir.Constant(i32x8.llvm, [flip] * 8))
        place = b.add(target, b.mul(target_stride, I64(i)))
        b.store(value, _address(b, place, i32x8.llvm)).align = 4
