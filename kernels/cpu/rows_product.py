"""The inner loop of attention: a few rows of numbers times the rows of a matrix, in vector code.

out[r] (+)= sum over i of a[r][i] * matrix[i], i ascending, one fused multiply-add each, so that an
element has the same bits whichever rows it is computed with.
Imported only when something has to be compiled.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from edgellm.kernels.cpu.emit import Emit
from edgellm.kernels.cpu.halves import widen
from edgellm.kernels.cpu.layout import LINE
from edgellm.kernels.cpu.vectors import F32, I16, I64, fixed_intrinsic, prefetch

ELEMENT_BYTES = {"f32": 4, "f16": 2}
_ELEMENTS = {"f32": F32, "f16": I16}


def make_rows_product(element: str, most: int, columns: int, lanes: int) -> Any:
    """product(rows, a, a_at, out, out_at, matrix, stride, count, keep, ahead), 1 <= rows <= most.

    a, out: addresses of tables of `rows` addresses, to each of which a_at (out_at) bytes are
    added: of `count` float32, and of `columns` float32 that are added to when keep is not 0.
    matrix: address of row 0; rows of `columns` elements lie `stride` bytes apart. ahead: a matrix
    like it that will be read next; it is asked for row by row. lanes: elements of a vector, which
    change no bit.
    """
    kind = ir.VectorType(_ELEMENTS[element], lanes)
    size, vectors = ELEMENT_BYTES[element], columns // lanes

    def of_rows(
        b: Any, rows: int, a: Any, a_at: Any, out: Any, out_at: Any,
        matrix: Any, stride: Any, count: Any, keep: Any, ahead: Any,
    ) -> None:  # fmt: skip
        e = Emit(b, lanes)
        sources = [b.add(e.load(e.at(a, 8 * r), I64, 8), a_at) for r in range(rows)]
        targets = [b.add(e.load(e.at(out, 8 * r), I64, 8), out_at) for r in range(rows)]
        zero = ir.Constant(e.floats_type, [0.0] * lanes)
        each = [(r, v) for r in range(rows) for v in range(vectors)]
        places = {(r, v): e.at(targets[r], 4 * lanes * v) for r, v in each}
        accs = {key: cgutils.alloca_once_value(b, zero) for key in each}
        with b.if_then(b.icmp_signed("!=", keep, I64(0))):
            for key, acc in accs.items():
                b.store(e.load(places[key], e.floats_type, 4), acc)
        with cgutils.for_range(b, count) as loop:
            offset = b.mul(loop.index, stride)
            row, later = b.add(matrix, offset), b.add(ahead, offset)
            for line in range(0, columns * size, LINE):
                prefetch(b, e.at(later, line), 1)
            loaded = [e.load(e.at(row, lanes * size * v), kind, size) for v in range(vectors)]
            wide = loaded if element == "f32" else [widen(b, x, e.isa) for x in loaded]
            at = b.mul(loop.index, I64(4))
            for r in range(rows):
                factor = e.splat_load(b.add(sources[r], at), F32)
                for v in range(vectors):
                    b.store(e.fma(factor, wide[v], b.load(accs[r, v])), accs[r, v])
        for key, acc in accs.items():
            e.store(places[key], b.load(acc), 4)

    def body(b: Any, *arguments: Any) -> None:
        signature = ir.FunctionType(ir.VoidType(), [I64] * 10)
        name = f"rows_product_{element}_{most}_{columns}_{lanes}"
        function = b.module.globals.get(name)
        if function is None:
            function = ir.Function(b.module, signature, name)
            # One for all callers: in each of them so many loops would hide from the optimiser that
            # nothing can be raised.
            function.linkage = "linkonce_odr"
            function.attributes.add("noinline")
            define(function)
        b.call(function, arguments)

    def define(function: Any) -> None:
        rows, *arguments = function.args
        b = ir.IRBuilder(function.append_basic_block())
        others = function.append_basic_block()  # of no number of rows that is allowed
        switch = b.switch(rows, others)
        for count in range(1, most + 1):
            block = function.append_basic_block()
            switch.add_case(I64(count), block)
            b.position_at_end(block)
            of_rows(b, count, *arguments)
            b.ret_void()
        b.position_at_end(others)
        b.unreachable()

    return fixed_intrinsic(types.void, *[types.int64] * 10)(body)
