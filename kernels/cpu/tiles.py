"""The inner loops of block-format products, written as LLVM IR with everything unrolled.

`make_direct` multiplies a strip as it lies in the file with a few activation rows. `make_fill`
unpacks a strip into a panel, and `make_tile` multiplies a panel with several activation rows.
All three add one activation block after another with the same fused multiply-adds, so an element
has the same bits whichever computed it.

Activation rows: see layout.py. A panel is a row of records, one per activation block: the stored
integers ordered (group, 4 columns, strip, lane), then scales, then minima, (group, strip, lane).
Imported only when something has to be compiled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.dot import pin_all
from edgellm.kernels.cpu.emit import NARROW, Emit
from edgellm.kernels.cpu.four_rows import FourRows
from edgellm.kernels.cpu.isa import host_isa
from edgellm.kernels.cpu.product import COLUMNS, FourRowsProduct, Product
from edgellm.kernels.cpu.strips import Strip
from edgellm.kernels.cpu.vectors import I64, ONCE, fixed_intrinsic, prefetch
from edgellm.kernels.formats import Format

# Cache levels of the near and the far lines that are asked for while a strip is read: the far ones
# start their way from memory, the near ones end it. One token reads a strip once; more may come
# back to it.
LEVELS_ONE = ONCE, ONCE
LEVELS_MANY = 1, 3


@dataclass(frozen=True)
class PanelShape:
    """How a panel of `strips` strips of one format lies in memory."""

    lanes: int
    strips: int
    group_size: int
    has_min: bool

    @property
    def vector_bytes(self) -> int:
        return 4 * self.lanes

    @property
    def groups(self) -> int:
        """Scale groups per record."""
        return COLUMNS // self.group_size

    def vector_at(self, group: int, j: int, strip: int) -> int:
        steps = self.group_size // 4
        return self.vector_bytes * ((group * steps + j) * self.strips + strip)

    def scale_at(self, group: int, strip: int) -> int:
        return self.vector_bytes * ((COLUMNS // 4 + group) * self.strips + strip)

    def minimum_at(self, group: int, strip: int) -> int:
        return self.scale_at(group, strip) + self.vector_bytes * self.groups * self.strips

    @property
    def record_bytes(self) -> int:
        factors = self.groups * (2 if self.has_min else 1)
        return self.vector_bytes * self.strips * (COLUMNS // 4 + factors)


def _row_addresses(e: Emit, weight: Any, row_bytes: Any, first: Any, last: Any) -> list[Any]:
    """Addresses of a strip's rows; rows past the last are the last."""
    rows = []
    for lane in range(e.lanes):
        row = e.b.add(first, I64(lane))
        row = e.b.select(e.b.icmp_signed("<", row, last), row, last)
        rows.append(e.b.add(weight, e.b.mul(row, row_bytes)))
    return rows


def _token_rows(e: Emit, x: Any, x_bytes: Any, tokens: int, is_listed: bool) -> list[Any]:
    """Addresses of activation rows that lie x_bytes apart from x on; or, of rows that lie anywhere,
    x_bytes behind the addresses in the list at x.
    """
    if is_listed:
        return [e.b.add(e.load(e.at(x, 8 * t), I64, 8), x_bytes) for t in range(tokens)]
    return [e.b.add(x, e.b.mul(x_bytes, I64(t))) for t in range(tokens)]


def _direct_product(b: Any, fmt: Format, strip: Strip, lanes: int) -> Product:
    """How rows of a strip are multiplied as they lie in the file."""
    isa = host_isa()
    if lanes == NARROW and strip.is_bytewise and isa.has_wide_vnni and isa.has_gfni:
        return FourRowsProduct(FourRows(b), strip, fmt.group_size)
    return Product(Emit(b, lanes), strip, fmt.group_size)


def make_direct(fmt: Format, strip: Strip, tokens: int, lanes: int, is_listed: bool = False) -> Any:
    """direct(weight, row_bytes, first, last, x, x_bytes, sums, blocks, near, far): one strip.

    Multiplies `lanes` rows from `first` on as they lie in the file: float32 (tokens, lanes) sums.
    x, x_bytes: see _token_rows. blocks: format blocks per row. near, far: addresses from which on
    as many lines as the strip has are asked for on the way.
    """

    def body(
        b: Any, weight: Any, row_bytes: Any, first: Any, last: Any,
        x: Any, x_bytes: Any, sums: Any, blocks: Any, near: Any, far: Any,
    ) -> None:  # fmt: skip
        product = _direct_product(b, fmt, strip, lanes)
        e = product.e
        levels = LEVELS_ONE if tokens == 1 else LEVELS_MANY
        rows = _row_addresses(e, weight, row_bytes, first, last)
        xs = _token_rows(e, x, x_bytes, tokens, is_listed)
        parts = COLUMNS // fmt.group_size
        zero = ir.Constant(e.floats_type, [0.0] * lanes)
        accs = [cgutils.alloca_once_value(b, zero) for _ in range(tokens)]
        with cgutils.for_range(b, blocks) as loop:
            at = b.mul(loop.index, I64(fmt.type_size))
            here = [b.add(row, at) for row in rows]
            x_at = b.mul(loop.index, I64(fmt.block_size // COLUMNS * layout.ACTIVATION_BYTES))
            x_here = [b.add(row, x_at) for row in xs]
            near_lines, far_lines = (
                _lines(b, start, loop.index, lanes * fmt.type_size) for start in (near, far)
            )
            asked = list(zip(near_lines, far_lines, strict=True))
            block = strip.read(e, here)
            waiting: dict[int, list[Any]] = {}
            done = 0
            values = [b.load(acc) for acc in accs]
            groups = fmt.block_size // fmt.group_size
            for number, (group, vectors) in enumerate(block.groups):
                for lines in asked[
                    len(asked) * number // groups : len(asked) * (number + 1) // groups
                ]:
                    for line, level in zip(lines, levels, strict=True):
                        prefetch(b, line, level)
                where = divmod(group, parts)
                dots = [product.dot(product.start(xt, *where)) for xt in x_here]
                for j, w in enumerate(vectors):
                    for dot, xt in zip(dots, x_here, strict=True):
                        dot.add(w, product.activations(xt, *where, j))
                    pin_all(e, dots)
                if groups > 1:  # all at once, the prefetches of a large block would have to wait
                    e.keep_order()
                waiting[group] = [dot.total() for dot in dots]
                while done in waiting:  # floats are added in column order, whatever came first
                    where = divmod(done, parts)
                    scale = block.scale(done)
                    minimum = block.minimum(done) if block.minimum else None
                    values = [
                        product.finish(value, total, scale, minimum, xt, *where)
                        for value, total, xt in zip(values, waiting.pop(done), x_here, strict=True)
                    ]
                    done += 1
            for acc, value in zip(accs, values, strict=True):
                b.store(value, acc)
        for t, acc in enumerate(accs):
            e.store(e.at(sums, e.vector_bytes * t), b.load(acc), 4)

    return fixed_intrinsic(types.void, *[types.int64] * 10)(body)


def _lines(b: Any, start: Any, index: Any, step: int) -> list[Any]:
    """Addresses of the cache lines of part `index` of a region read `step` bytes at a time."""
    base = b.add(start, b.mul(index, I64(step)))
    return [b.add(base, I64(64 * i)) for i in range(-(-step // 64))]


def make_fill(fmt: Format, strip: Strip, shape: PanelShape) -> Any:
    """fill(panel, weight, row_bytes, first, last, which, blocks): one strip into a panel.

    panel: address of the first record; which: the strip's place in it.
    """

    def body(
        b: Any, panel: Any, weight: Any, row_bytes: Any, first: Any, last: Any,
        which: Any, blocks: Any,
    ) -> None:  # fmt: skip
        e = Emit(b, shape.lanes)
        rows = _row_addresses(e, weight, row_bytes, first, last)
        start = b.add(panel, b.mul(which, I64(shape.vector_bytes)))
        records = fmt.block_size // COLUMNS
        with cgutils.for_range(b, blocks) as loop:
            at = b.mul(loop.index, I64(fmt.type_size))
            record = b.add(start, b.mul(loop.index, I64(records * shape.record_bytes)))
            block = strip.read(e, [b.add(row, at) for row in rows])
            for group, vectors in block.groups:
                number, part = divmod(group, shape.groups)
                base = number * shape.record_bytes
                for j, w in enumerate(vectors):
                    e.store(e.at(record, base + shape.vector_at(part, j, 0)), w, 32)
                e.store(e.at(record, base + shape.scale_at(part, 0)), block.scale(group), 32)
                if block.minimum:
                    minimum = block.minimum(group)
                    e.store(e.at(record, base + shape.minimum_at(part, 0)), minimum, 32)

    return fixed_intrinsic(types.void, *[types.int64] * 7)(body)


def make_tile(strip: Strip, shape: PanelShape, tokens: int, is_listed: bool = False) -> Any:
    """tile(panel, x, x_bytes, sums, sums_bytes, records): adds a panel's product to `sums`.

    x, x_bytes: where `tokens` activation rows are, from the panel's first column on; see
    _token_rows. sums: (tokens, strips, lanes) float32, tokens `sums_bytes` apart.
    """

    def body(
        b: Any, panel: Any, x: Any, x_bytes: Any, sums: Any, sums_bytes: Any, records: Any
    ) -> None:
        e = Emit(b, shape.lanes)
        product = Product(e, strip, shape.group_size)
        each = [(t, s) for t in range(tokens) for s in range(shape.strips)]
        xs = _token_rows(e, x, x_bytes, tokens, is_listed)
        places = {
            (t, s): e.at(b.add(sums, b.mul(sums_bytes, I64(t))), shape.vector_bytes * s)
            for t, s in each
        }
        accs = {
            key: cgutils.alloca_once_value(b, e.load(place, e.floats_type, 4))
            for key, place in places.items()
        }
        with cgutils.for_range(b, records) as loop:
            record = b.add(panel, b.mul(loop.index, I64(shape.record_bytes)))
            x_at = b.mul(loop.index, I64(layout.ACTIVATION_BYTES))
            x_here = [b.add(row, x_at) for row in xs]
            values = {key: b.load(acc) for key, acc in accs.items()}
            for part in range(shape.groups):
                _tile_group(e, product, shape, record, x_here, values, part)
            for key, acc in accs.items():
                b.store(values[key], acc)
        for key, place in places.items():
            e.store(place, b.load(accs[key]), 4)

    return fixed_intrinsic(types.void, *[types.int64] * 6)(body)


def _tile_group(
    e: Emit, product: Product, shape: PanelShape, record: Any, xs: list[Any],
    values: dict[tuple[int, int], Any], part: int,
) -> None:  # fmt: skip
    """One group of one record for all tokens and strips of a tile; updates `values`."""
    starts = [product.start(x, 0, part) for x in xs]
    dots = {(t, s): product.dot(starts[t]) for t, s in values}
    for j in range(shape.group_size // 4):
        ws = [
            e.load(e.at(record, shape.vector_at(part, j, s)), e.bytes_type, 32)
            for s in range(shape.strips)
        ]
        for t, x in enumerate(xs):
            a = product.activations(x, 0, part, j)
            for s, w in enumerate(ws):
                dots[t, s].add(w, a)
        pin_all(e, dots.values())
    for s in range(shape.strips):
        scale = e.load(e.at(record, shape.scale_at(part, s)), e.floats_type, 32)
        minimum = None
        if shape.has_min:
            minimum = e.load(e.at(record, shape.minimum_at(part, s)), e.floats_type, 32)
        for t, x in enumerate(xs):
            total = dots[t, s].total()
            values[t, s] = product.finish(values[t, s], total, scale, minimum, x, 0, part)


Tile = Callable[..., None]
