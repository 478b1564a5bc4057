"""SIMD vectors and raw pointers as types of Numba, and how functions on them are declared.

Vector types (`f32x8`, `i32x8`) are held in registers and support + - * on equal types. `Pointer` is
an address with an element type that supports p[i] and p[i] = v, nothing else. Nothing here rounds
implicitly: multiply-adds are fused only where `fma` is called.

Imported only when something has to be compiled.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

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


# ---------------------------------------------------------------- to write functions


def emit_call(builder: Any, name: str, result: ir.Type, args: Any, kinds: Any = None) -> Any:
    """Calls the function `name`, which is declared where it is not yet."""
    kinds = [a.type for a in args] if kinds is None else kinds
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, kinds), name)
    return builder.call(function, args)


ONCE = 4  # a level of `prefetch`


def prefetch(builder: Any, address: Any, level: int) -> None:
    """Asks for a line, to be kept in the cache of this level, 1 to 3, and those above.

    ONCE: in the first alone, since it is used once. Where a line goes from there to the next level,
    it takes the room of others, and their way back to memory that of lines to come.
    """
    byte = builder.inttoptr(address, I8.as_pointer())
    emit_call(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, I32(0), I32(4 - level), I32(1)])


def typed_address(builder: Any, value: Any, element: ir.Type) -> Any:
    """An integer as the address of an element."""
    return builder.inttoptr(value, element.as_pointer())


def splat_scalar(builder: Any, scalar: Any, lanes: int) -> Any:
    """The scalar in all lanes."""
    empty = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    one = builder.insert_element(empty, scalar, I32(0))
    return builder.shuffle_vector(one, empty, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))


def pick_lanes(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    """These lanes of a followed by b."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


def split_vector(builder: Any, value: Any, count: int) -> list[Any]:
    """`count` equal parts."""
    size = value.type.count // count
    starts = range(0, value.type.count, size)
    return [pick_lanes(builder, value, value, list(range(i, i + size))) for i in starts]


def join_vectors(builder: Any, parts: list[Any]) -> Any:
    """One vector of 1, 2, 4, ... equal ones."""
    while len(parts) > 1:
        lanes = list(range(2 * parts[0].type.count))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [pick_lanes(builder, low, high, lanes) for low, high in pairs]
    return parts[0]


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
