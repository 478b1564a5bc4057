"""Dot products of a few rows of float weights with a few activation rows, in vector code.

Eight partial sums each, by column modulo 8, one fused multiply-add a column: an element has the
same bits whichever others are computed beside it.
Imported only when something has to be compiled.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from edgellm.kernels.cpu.emit import NARROW, Emit
from edgellm.kernels.cpu.halves import widen
from edgellm.kernels.cpu.simd import I16, I64, fixed_intrinsic
from edgellm.kernels.formats import Format


def make_float_tile(fmt: Format, rows: int, tokens: int) -> Any:
    """tile(w, w_bytes, x, x_bytes, columns, out) -> partial sums of rows x tokens dot products.

    w, x: addresses of the first rows, which lie w_bytes and x_bytes apart; x is float32. columns:
    a multiple of 8. out: 8 float32 for each row and token, tokens side by side.
    """

    def weights(b: Any, e: Emit, address: Any) -> Any:
        if fmt.name == "F32":
            return e.load(address, e.floats_type, 4)
        words = e.load(address, ir.VectorType(I16, NARROW), 2)
        if fmt.name == "F16":
            return widen(b, words, e.isa)
        wide = b.zext(words, e.dwords_type)
        return b.bitcast(b.shl(wide, ir.Constant(e.dwords_type, [16] * NARROW)), e.floats_type)

    def body(b: Any, w: Any, w_bytes: Any, x: Any, x_bytes: Any, columns: Any, out: Any) -> None:
        e = Emit(b, NARROW)
        w_rows = [b.add(w, b.mul(w_bytes, I64(r))) for r in range(rows)]
        x_rows = [b.add(x, b.mul(x_bytes, I64(t))) for t in range(tokens)]
        zero = ir.Constant(e.floats_type, [0.0] * NARROW)
        each = [(r, t) for r in range(rows) for t in range(tokens)]
        sums = {key: cgutils.alloca_once_value(b, zero) for key in each}
        with cgutils.for_range(b, b.sdiv(columns, I64(NARROW))) as loop:
            w_at = b.mul(loop.index, I64(NARROW * fmt.type_size))
            x_at = b.mul(loop.index, I64(NARROW * 4))
            activations = [e.load(b.add(row, x_at), e.floats_type, 4) for row in x_rows]
            for r in range(rows):
                value = weights(b, e, b.add(w_rows[r], w_at))
                for t in range(tokens):
                    total = e.fma(value, activations[t], b.load(sums[r, t]))
                    b.store(total, sums[r, t])
        for number, key in enumerate(each):
            e.store(e.at(out, 4 * NARROW * number), b.load(sums[key]), 4)

    return fixed_intrinsic(types.void, *[types.int64] * 6)(body)
