"""The inner loop of attention: a few rows of numbers times the rows of a matrix, in vector code.

out[r] (+)= sum over i of a[r][i] * matrix[i], i ascending, one fused multiply-add each, so that an
element has the same bits whichever rows it is computed with.
Imported only when something has to be compiled.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from edgellm.kernels.cpu.emit import Emit
from edgellm.kernels.cpu.halves import widen
from edgellm.kernels.cpu.layout import LINE
from edgellm.kernels.cpu.vectors import (
    F32,
    I8,
    I16,
    I64,
    fixed_intrinsic,
    prefetch,
    splat_scalar,
)
from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES, SCALED

# rows(e, columns, matrix, stride, ahead, count, use): calls use(i, vectors) in a loop over `count`
# rows of a matrix, with these columns of row i as float32, and asks for row i of `ahead`, unless
# that is None.
Use = Callable[[Any, list[Any]], None]
Rows = Callable[[Emit, range, Any, Any, Any, Any, Use], None]


def _floats(kind: ir.Type, size: int) -> Rows:
    """Rows of floats, `stride` bytes apart."""

    def rows(
        e: Emit, columns: range, matrix: Any, stride: Any, ahead: Any, count: Any, use: Use
    ) -> None:
        b, vector = e.b, ir.VectorType(kind, e.lanes)
        with cgutils.for_range(b, count) as loop:
            offset = b.mul(loop.index, stride)
            row = b.add(matrix, offset)
            if ahead is not None:
                for line in range(0, BLOCK_SIZE * size, LINE):
                    prefetch(b, e.at(b.add(ahead, offset), line), 1)
            loaded = [e.load(e.at(row, size * c), vector, size) for c in columns]
            use(loop.index, loaded if kind is F32 else [widen(b, x, e.isa) for x in loaded])

    return rows


def _bytes_times(e: Emit, places: list[Any], scales: list[Any]) -> list[Any]:
    """int8 as float32 times their scales."""
    kind, vectors = ir.VectorType(I8, e.lanes), []
    for place, scale in zip(places, scales, strict=True):
        wide = e.b.sext(e.load(place, kind), e.dwords_type)
        vectors.append(e.b.fmul(e.to_float(wide), scale))
    return vectors


def _q8_0_keys(
    e: Emit, columns: range, matrix: Any, stride: Any, ahead: Any, count: Any, use: Use
) -> None:
    """For each SCALED dimensions the slots' scales and then their integers; see ops/cache.py."""
    b, halves = e.b, ir.VectorType(I16, e.lanes)
    group_bytes = BLOCK_SIZE * CACHE_TYPES["q8_0"].bytes_per_32
    with cgutils.for_range(b, b.udiv(count, I64(SCALED))) as groups:
        offset = b.mul(groups.index, I64(group_bytes))
        group = b.add(matrix, offset)
        scales = [widen(b, e.load(e.at(group, 2 * c), halves, 2), e.isa) for c in columns]
        with cgutils.for_range(b, I64(SCALED)) as loop:
            if ahead is not None:
                line = b.mul(loop.index, I64(group_bytes // SCALED))
                prefetch(b, b.add(b.add(ahead, offset), line), 1)
            row = b.add(e.at(group, 2 * BLOCK_SIZE), b.mul(loop.index, I64(BLOCK_SIZE)))
            i = b.add(b.mul(groups.index, I64(SCALED)), loop.index)
            use(i, _bytes_times(e, [e.at(row, c) for c in columns], scales))


def _q8_0_values(
    e: Emit, columns: range, matrix: Any, stride: Any, ahead: Any, count: Any, use: Use
) -> None:
    """Blocks of a scale and its integers, those of a row `stride` bytes behind those before."""
    b = e.b
    with cgutils.for_range(b, count) as loop:
        offset = b.mul(loop.index, stride)
        row = b.add(matrix, offset)
        if ahead is not None:
            prefetch(b, b.add(ahead, offset), 1)
        scale = splat_scalar(b, widen(b, e.load(row, I16, 2), e.isa), e.lanes)
        use(
            loop.index, _bytes_times(e, [e.at(row, 2 + c) for c in columns], [scale] * len(columns))
        )


PER_LOOP = 2  # vectors of a row that a loop reads, with sums of their own for each row of numbers

# By type of the cache: blocks that are multiplied as they lie.
KEY_ROWS: dict[str, Rows] = {"f32": _floats(F32, 4), "f16": _floats(I16, 2), "q8_0": _q8_0_keys}
VALUE_ROWS: dict[str, Rows] = {**KEY_ROWS, "q8_0": _q8_0_values}


def make_rows_product(name: str, read: Rows, most: int, columns: int, lanes: int) -> Any:
    """product(rows, a, a_at, out, out_at, matrix, stride, count, keep, ahead), 1 <= rows <= most.

    a, out: addresses of tables of `rows` addresses, to each of which a_at (out_at) bytes are
    added: of `count` float32, and of `columns` float32 that are added to when keep is not 0.
    matrix: address of row 0; read: how its rows lie, of BLOCK_SIZE numbers or more, `stride` bytes
    apart where that is not fixed. ahead: a matrix like it that will be read next; it is asked for
    row by row. name: of all that, for the code. lanes: numbers of a vector, of which PER_LOOP are
    read at a time; they change no bit.
    """

    def of_columns(
        b: Any, rows: int, part: range, a: Any, a_at: Any, out: Any, out_at: Any,
        matrix: Any, stride: Any, count: Any, keep: Any, ahead: Any,
    ) -> None:  # fmt: skip
        e = Emit(b, lanes)
        sources = [b.add(e.load(e.at(a, 8 * r), I64, 8), a_at) for r in range(rows)]
        targets = [b.add(e.load(e.at(out, 8 * r), I64, 8), out_at) for r in range(rows)]
        zero = ir.Constant(e.floats_type, [0.0] * lanes)
        places = {(r, c): e.at(targets[r], 4 * c) for r in range(rows) for c in part}
        accs = {key: cgutils.alloca_once_value(b, zero) for key in places}
        with b.if_then(b.icmp_signed("!=", keep, I64(0))):
            for key, acc in accs.items():
                b.store(e.load(places[key], e.floats_type, 4), acc)

        def use(i: Any, row: list[Any]) -> None:
            at = b.mul(i, I64(4))
            for r in range(rows):
                factor = e.splat_load(b.add(sources[r], at), F32)
                for c, numbers in zip(part, row, strict=True):
                    b.store(e.fma(factor, numbers, b.load(accs[r, c])), accs[r, c])

        read(e, part, matrix, stride, ahead if part.start == 0 else None, count, use)
        for key, acc in accs.items():
            e.store(places[key], b.load(acc), 4)

    def of_rows(b: Any, rows: int, *arguments: Any) -> None:
        for first in range(0, columns, PER_LOOP * lanes):
            part = range(first, min(columns, first + PER_LOOP * lanes), lanes)
            of_columns(b, rows, part, *arguments)

    def body(b: Any, *arguments: Any) -> None:
        signature = ir.FunctionType(ir.VoidType(), [I64] * 10)
        symbol = f"rows_product_{name}_{most}_{columns}_{lanes}"
        function = b.module.globals.get(symbol)
        if function is None:
            function = ir.Function(b.module, signature, symbol)
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
