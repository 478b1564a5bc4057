"""Dot products of float weights with activation rows, in vector code.

Eight partial sums each, by column modulo 8, one fused multiply-add a column: an element has the
same bits whichever others are computed beside it. `make_float_tile` reads a few weight rows as
they lie in the file. For many tokens `make_float_fill` writes rows as float32 into a panel, so
many side by side as a vector has eighths, and `make_float_panel_tile` multiplies that.
Imported only when something has to be compiled.
"""

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from edgellm.kernels.cpu.emit import NARROW, Emit
from edgellm.kernels.cpu.halves import widen
from edgellm.kernels.cpu.vectors import I16, I32, I64, fixed_intrinsic
from edgellm.kernels.formats import Format

PARTIAL_BYTES = 4 * NARROW  # of the partial sums of one dot product


@dataclass(frozen=True)
class FloatPanel:
    """How rows lie in a panel: for every eight columns `vectors` vectors of `lanes` float32."""

    lanes: int
    vectors: int

    @property
    def rows(self) -> int:
        return self.lanes // NARROW * self.vectors

    @property
    def record_bytes(self) -> int:
        """Of eight columns of all rows, and of the partial sums of one token."""
        return 4 * self.lanes * self.vectors


def _eight_weights(e: Emit, fmt: Format, address: Any) -> Any:
    """Eight weights of one row as float32."""
    b = e.b
    if fmt.name == "F32":
        return e.load(address, ir.VectorType(ir.FloatType(), NARROW), 4)
    words = e.load(address, ir.VectorType(I16, NARROW), 2)
    if fmt.name == "F16":
        return widen(b, words, e.isa)
    kind = ir.VectorType(I32, NARROW)
    high = b.shl(b.zext(words, kind), ir.Constant(kind, [16] * NARROW))
    return b.bitcast(high, ir.VectorType(ir.FloatType(), NARROW))


def _side_by_side(b: Any, rows: list[Any]) -> Any:
    """One or two vectors of eight as one."""
    if len(rows) == 1:
        return rows[0]
    mask = ir.Constant(ir.VectorType(I32, 2 * NARROW), list(range(2 * NARROW)))
    return b.shuffle_vector(*rows, mask)


def make_float_tile(fmt: Format, rows: int, tokens: int) -> Any:
    """tile(w, w_bytes, x, x_bytes, columns, out) -> partial sums of rows x tokens dot products.

    w, x: addresses of the first rows, which lie w_bytes and x_bytes apart; x is float32. columns:
    a multiple of 8. out: 8 float32 for each row and token, tokens side by side.
    """

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
                value = _eight_weights(e, fmt, b.add(w_rows[r], w_at))
                for t in range(tokens):
                    total = e.fma(value, activations[t], b.load(sums[r, t]))
                    b.store(total, sums[r, t])
        for number, key in enumerate(each):
            e.store(e.at(out, PARTIAL_BYTES * number), b.load(sums[key]), 4)

    return fixed_intrinsic(types.void, *[types.int64] * 6)(body)


def make_float_fill(fmt: Format, panel: FloatPanel) -> Any:
    """fill(panel, w, w_bytes, last, records): panel.rows rows from w on, eight columns a record.

    last: the number of the last row there is, counted from w; rows after it are that row again.
    """

    def body(b: Any, target: Any, w: Any, w_bytes: Any, last: Any, records: Any) -> None:
        e = Emit(b, panel.lanes)
        rows = []
        for r in range(panel.rows):
            row = b.select(b.icmp_signed("<", I64(r), last), I64(r), last)
            rows.append(b.add(w, b.mul(w_bytes, row)))
        each = panel.lanes // NARROW
        with cgutils.for_range(b, records) as loop:
            at = b.mul(loop.index, I64(NARROW * fmt.type_size))
            record = b.add(target, b.mul(loop.index, I64(panel.record_bytes)))
            for v in range(panel.vectors):
                some = [
                    _eight_weights(e, fmt, b.add(row, at))
                    for row in rows[each * v : each * (v + 1)]
                ]
                e.store(e.at(record, e.vector_bytes * v), _side_by_side(b, some), 32)

    return fixed_intrinsic(types.void, *[types.int64] * 5)(body)


def make_float_panel_tile(panel: FloatPanel, tokens: int) -> Any:
    """tile(panel, x, x_bytes, sums, records): adds a panel's product to the partial sums.

    x: the first of `tokens` float32 rows, at the panel's first column. sums: for each token the
    8 partial sums of each of the panel's rows.
    """

    def body(b: Any, source: Any, x: Any, x_bytes: Any, sums: Any, records: Any) -> None:
        e = Emit(b, panel.lanes)
        x_rows = [b.add(x, b.mul(x_bytes, I64(t))) for t in range(tokens)]
        places = {
            (t, v): e.at(sums, panel.record_bytes * t + e.vector_bytes * v)
            for t in range(tokens)
            for v in range(panel.vectors)
        }
        accs = {
            key: cgutils.alloca_once_value(b, e.load(place, e.floats_type, 4))
            for key, place in places.items()
        }
        eight = ir.VectorType(ir.FloatType(), NARROW)
        with cgutils.for_range(b, records) as loop:
            record = b.add(source, b.mul(loop.index, I64(panel.record_bytes)))
            x_at = b.mul(loop.index, I64(4 * NARROW))
            activations = []
            for row in x_rows:
                value = e.load(b.add(row, x_at), eight, 4)
                activations.append(_side_by_side(b, [value] * (panel.lanes // NARROW)))
            for v in range(panel.vectors):
                weights = e.load(e.at(record, e.vector_bytes * v), e.floats_type, 32)
                for t in range(tokens):
                    total = e.fma(weights, activations[t], b.load(accs[t, v]))
                    b.store(total, accs[t, v])
        for key, place in places.items():
            e.store(place, b.load(accs[key]), 4)

    return fixed_intrinsic(types.void, *[types.int64] * 5)(body)
