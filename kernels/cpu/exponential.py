"""e ** x on vectors of any number of lanes, which changes no bit.

Imported only when something has to be compiled.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from edgellm.kernels.cpu.emit import Emit
from edgellm.kernels.cpu.vectors import (
    I32,
    I64,
    emit_call,
    f32x8,
    fixed_intrinsic,
    pick_lanes,
    splat_scalar,
)

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693359375
LN2_LOW = -2.12194440e-4
# e ** x stays a normal number between these.
EXP_MIN, EXP_MAX = -87.0, 88.0
TAYLOR = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0)


def emit_exp(b: Any, x: Any) -> Any:
    """e ** x to about 1 ulp, arguments clamped to EXP_MIN..EXP_MAX; NaN counts as the least.

    Cody and Waite's reduction to |r| <= ln(2) / 2 and the Taylor polynomial of degree 7.
    """
    kind, lanes = x.type, x.type.count
    whole = ir.VectorType(I32, lanes)

    def splat(value: float) -> ir.Constant:
        return ir.Constant(kind, [value] * lanes)

    def fma(p: Any, q: Any, r: Any) -> Any:
        return emit_call(b, f"llvm.fma.v{lanes}f32", kind, [p, q, r])

    x = b.select(b.fcmp_ordered(">", x, splat(EXP_MIN)), x, splat(EXP_MIN))
    x = b.select(b.fcmp_ordered("<", x, splat(EXP_MAX)), x, splat(EXP_MAX))
    n = emit_call(b, f"llvm.roundeven.v{lanes}f32", kind, [b.fmul(x, splat(LOG2_E))])
    r = fma(n, splat(-LN2_LOW), fma(n, splat(-LN2_HIGH), x))
    p = splat(TAYLOR[0])
    for coefficient in TAYLOR[1:]:
        p = fma(p, r, splat(coefficient))
    exponent = b.add(b.fptosi(n, whole), ir.Constant(whole, [127] * lanes))
    return b.fmul(p, b.bitcast(b.shl(exponent, ir.Constant(whole, [23] * lanes)), kind))


@fixed_intrinsic(f32x8, f32x8)
def exp(b: Any, x: Any) -> Any:
    """e ** x of eight lanes; see emit_exp."""
    return emit_exp(b, x)


def make_exponentials(lanes: int) -> Any:
    """exponentials(address, count, largest, total): x to e ** (x - largest) in place.

    count: of float32, a multiple of `lanes`, 8 or a multiple of it. Gives total, eight lanes, with
    every eight of the results added in turn.
    """

    def body(b: Any, address: Any, count: Any, largest: Any, total: Any) -> Any:
        e = Emit(b, lanes)
        sums = cgutils.alloca_once_value(b, total)
        top = splat_scalar(b, largest, lanes)
        with cgutils.for_range(b, b.udiv(count, I64(lanes))) as loop:
            place = b.add(address, b.mul(loop.index, I64(4 * lanes)))
            p = emit_exp(b, b.fsub(e.load(place, e.floats_type, 4), top))
            e.store(place, p, 4)
            for i in range(0, lanes, 8):
                b.store(b.fadd(b.load(sums), pick_lanes(b, p, p, list(range(i, i + 8)))), sums)
        return b.load(sums)

    return fixed_intrinsic(f32x8, types.int64, types.int64, types.float32, f32x8)(body)
