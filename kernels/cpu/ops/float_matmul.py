"""Products with float weights: 8 partial sums by k mod 8 and a fixed tree, whatever the batch."""

import numpy as np

from edgellm.kernels.cpu.emit import NARROW, wide_lanes
from edgellm.kernels.cpu.float_tile import (
    PARTIAL_BYTES,
    FloatPanel,
    make_float_fill,
    make_float_panel_tile,
    make_float_tile,
)
from edgellm.kernels.cpu.isa import host_isa
from edgellm.kernels.cpu.layout import SCRATCH, SCRATCH_BYTES
from edgellm.kernels.cpu.ops.common import f32, inline
from edgellm.kernels.cpu.ops.shares import in_shares
from edgellm.kernels.cpu.simd import fma, pointer, splat_f32, sum_lanes
from edgellm.kernels.cpu.vector_memory import (
    load_bf16,
    load_bf16_head,
    load_f16,
    load_f16_head,
    load_f32,
    load_f32_head,
)
from edgellm.kernels.formats import by_id

MANY_ROWS = 4 if host_isa().vector_registers == 32 else 2
MANY_TOKENS = 4

# From how many tokens on a panel pays, and its size: all sums of a tile, its tokens and one vector
# of weights stay in registers.
PANEL_TOKENS = 12
PANEL_COLUMNS = 512
PANEL_VECTORS, TILE_TOKENS = (6, 4) if wide_lanes() > NARROW else (4, 3)
PANEL = FloatPanel(wide_lanes(), PANEL_VECTORS)
PANEL_BYTES = PANEL_COLUMNS // NARROW * PANEL.record_bytes
TOKEN_BLOCK = 256
assert PANEL_BYTES + TOKEN_BLOCK * PANEL.record_bytes <= SCRATCH_BYTES

# Eight weights, and the first few of eight, by format.
LOADS = {
    "F32": (load_f32, load_f32_head),
    "F16": (load_f16, load_f16_head),
    "BF16": (load_bf16, load_bf16_head),
}


def make_dots(fmt):
    """dots(x, x stride in bytes, w, columns) -> dot products of 4 rows of x with one of w."""
    load, load_head = LOADS[fmt.name]
    element = fmt.type_size

    @inline
    def dots(x0, x1, x2, x3, w, columns):
        whole = columns // 8 * 8
        zero = splat_f32(np.float32(0.0))
        a0, a1, a2, a3 = zero, zero, zero, zero
        for i in range(0, whole, 8):
            value = load(w + element * i)
            a0 = fma(value, load_f32(x0 + 4 * i), a0)
            a1 = fma(value, load_f32(x1 + 4 * i), a1)
            a2 = fma(value, load_f32(x2 + 4 * i), a2)
            a3 = fma(value, load_f32(x3 + 4 * i), a3)
        if whole < columns:
            rest = columns - whole
            value = load_head(w + element * whole, rest)
            a0 = fma(value, load_f32_head(x0 + 4 * whole, rest), a0)
            a1 = fma(value, load_f32_head(x1 + 4 * whole, rest), a1)
            a2 = fma(value, load_f32_head(x2 + 4 * whole, rest), a2)
            a3 = fma(value, load_f32_head(x3 + 4 * whole, rest), a3)
        return sum_lanes(a0), sum_lanes(a1), sum_lanes(a2), sum_lanes(a3)

    return dots


@inline
def finish(value, bias, scale, row):
    """value * scale + bias[row]; a null address is no scale or no bias."""
    if scale:
        value = value * f32(scale, 0)
    if bias:
        value = value + f32(bias, row)
    return value


def make_float_matmul(type_id):
    fmt = by_id(int(type_id))
    few, many = _make_few(fmt), _make_many(fmt)

    def float_matmul(args, step, thread, threads):
        """args: row-count word, x, x row bytes, y, y stride, weight, weight row bytes, rows,
        columns, bias, scale.
        """
        if step[args[0]] < PANEL_TOKENS:
            few(args, step, thread, threads)
        else:
            many(args, step, thread, threads)

    return float_matmul


def _make_few(fmt):
    """Few tokens: rows are read as they lie in the file.

    The last tile overlaps the one before it where there are not enough for another.
    """
    tiles = {(r, t): make_float_tile(fmt, r, t) for r in (MANY_ROWS, 1) for t in (MANY_TOKENS, 1)}
    many, many_rows = tiles[MANY_ROWS, MANY_TOKENS], tiles[MANY_ROWS, 1]
    many_tokens, one = tiles[1, MANY_TOKENS], tiles[1, 1]
    finish_tile = _make_finish(fmt)

    @inline
    def by_rows(args, step, thread, threads, begin, end):
        """All tokens times rows [begin, end)."""
        tokens = step[args[0]]
        w_bytes, x_bytes, whole = args[6], args[2], args[8] // 8 * 8
        sums = step[SCRATCH] + thread * SCRATCH_BYTES
        rows = MANY_ROWS if end - begin >= MANY_ROWS else 1
        wide = MANY_TOKENS if tokens >= MANY_TOKENS else 1
        for first in range(begin, end, rows):
            row = min(first, end - rows)
            w = args[5] + row * w_bytes
            for start in range(0, tokens, wide):
                token = min(start, tokens - wide)
                x = args[1] + token * x_bytes
                if rows > 1 and wide > 1:
                    many(w, w_bytes, x, x_bytes, whole, sums)
                elif rows > 1:
                    many_rows(w, w_bytes, x, x_bytes, whole, sums)
                elif wide > 1:
                    many_tokens(w, w_bytes, x, x_bytes, whole, sums)
                else:
                    one(w, w_bytes, x, x_bytes, whole, sums)
                row_bytes = wide * PARTIAL_BYTES
                finish_tile(args, sums, row_bytes, PARTIAL_BYTES, row, rows, token, wide)

    share = in_shares(by_rows)

    @inline
    def few(args, step, thread, threads):
        share(args, step, thread, threads, args[7], args[7] * args[6])

    return few


def _make_many(fmt):
    """Many tokens: some rows are widened into a panel once and used for a block of them."""
    fill, element = make_float_fill(fmt, PANEL), fmt.type_size
    tile_one, tile_many = make_float_panel_tile(PANEL, 1), make_float_panel_tile(PANEL, TILE_TOKENS)
    finish_tile = _make_finish(fmt)
    token_bytes, panel_rows = PANEL.record_bytes, PANEL.rows

    @inline
    def some_panels(args, step, thread, threads, first_panel, end_panel):
        """All tokens times panels [first_panel, end_panel)."""
        tokens, x_bytes, whole = step[args[0]], args[2], args[8] // 8 * 8
        begin, end = first_panel * panel_rows, min(end_panel * panel_rows, args[7])
        panel = step[SCRATCH] + thread * SCRATCH_BYTES
        sums = panel + PANEL_BYTES
        for t0 in range(0, tokens, TOKEN_BLOCK):
            count = min(TOKEN_BLOCK, tokens - t0)
            for row in range(begin, end, panel_rows):
                rows = min(panel_rows, end - row)
                zeros = pointer(sums, np.float32)
                for i in range(count * token_bytes // 4):
                    zeros[i] = np.float32(0.0)
                for k0 in range(0, whole, PANEL_COLUMNS):
                    records = min(PANEL_COLUMNS, whole - k0) // 8
                    w = args[5] + row * args[6] + k0 * element
                    fill(panel, w, args[6], rows - 1, records)
                    x = args[1] + t0 * x_bytes + 4 * k0
                    t = 0
                    while t + TILE_TOKENS <= count:
                        at = sums + t * token_bytes
                        tile_many(panel, x + t * x_bytes, x_bytes, at, records)
                        t += TILE_TOKENS
                    while t < count:
                        at = sums + t * token_bytes
                        tile_one(panel, x + t * x_bytes, x_bytes, at, records)
                        t += 1
                finish_tile(args, sums, PARTIAL_BYTES, token_bytes, row, rows, t0, count)

    share = in_shares(some_panels)

    @inline
    def many(args, step, thread, threads):
        panels = (args[7] + panel_rows - 1) // panel_rows
        share(args, step, thread, threads, panels, args[7] * args[6] * step[args[0]])

    return many


def _make_finish(fmt):
    load_head, element = LOADS[fmt.name][1], fmt.type_size

    @inline
    def finish_tile(args, sums, row_bytes, token_bytes, row, rows, token, tokens):
        """Adds the last columns, sums the lanes, and writes the results.

        sums: 8 partial sums for each row and token, row_bytes and token_bytes apart.
        """
        y, columns = pointer(args[3], np.float32), args[8]
        whole = columns // 8 * 8
        for t in range(tokens):
            for r in range(rows):
                total = load_f32(sums + r * row_bytes + t * token_bytes)
                if whole < columns:
                    w = args[5] + (row + r) * args[6] + whole * element
                    x = args[1] + (token + t) * args[2] + 4 * whole
                    rest = columns - whole
                    total = fma(load_head(w, rest), load_f32_head(x, rest), total)
                value = finish(sum_lanes(total), args[9], args[10], row + r)
                y[(token + t) * args[4] + row + r] = value

    return finish_tile


KERNELS = {"float_matmul": make_float_matmul}
