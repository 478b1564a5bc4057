"""Products with float weights: 8 partial sums by k mod 8 and a fixed tree, whatever the batch."""

import numpy as np

from edgellm.kernels.cpu.float_tile import make_float_tile
from edgellm.kernels.cpu.isa import host_isa
from edgellm.kernels.cpu.layout import SCRATCH, SCRATCH_BYTES
from edgellm.kernels.cpu.ops.common import f32, inline, split
from edgellm.kernels.cpu.simd import (
    fma,
    load_bf16,
    load_bf16_head,
    load_f16,
    load_f16_head,
    load_f32,
    load_f32_head,
    pointer,
    splat_f32,
    sum_lanes,
)
from edgellm.kernels.formats import by_id

MANY_ROWS = 4 if host_isa().vector_registers == 32 else 2
MANY_TOKENS = 4

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
    load_head, element = LOADS[fmt.name][1], fmt.type_size
    tiles = {(r, t): make_float_tile(fmt, r, t) for r in (MANY_ROWS, 1) for t in (MANY_TOKENS, 1)}
    many, many_rows = tiles[MANY_ROWS, MANY_TOKENS], tiles[MANY_ROWS, 1]
    many_tokens, one = tiles[1, MANY_TOKENS], tiles[1, 1]

    @inline
    def finish_tile(args, sums, row, rows, token, tokens):
        """Adds the last columns, sums the lanes, and writes the results."""
        y, columns = pointer(args[3], np.float32), args[8]
        whole = columns // 8 * 8
        for r in range(row, row + rows):
            w = args[5] + r * args[6] + whole * element
            for t in range(token, token + tokens):
                total = load_f32(sums + 32 * ((r - row) * tokens + t - token))
                if whole < columns:
                    x = args[1] + t * args[2] + 4 * whole
                    rest = columns - whole
                    total = fma(load_head(w, rest), load_f32_head(x, rest), total)
                y[t * args[4] + r] = finish(sum_lanes(total), args[9], args[10], r)

    def float_matmul(args, step, thread, threads):
        """args: row-count word, x, x row bytes, y, y stride, weight, weight row bytes, rows,
        columns, bias, scale.

        The last tile overlaps the one before it where there are not enough for another.
        """
        tokens = step[args[0]]
        w_bytes, x_bytes, whole = args[6], args[2], args[8] // 8 * 8
        sums = step[SCRATCH] + thread * SCRATCH_BYTES
        begin, end = split(args[7], thread, threads)
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
                finish_tile(args, sums, row, rows, token, wide)

    return float_matmul


KERNELS = {"float_matmul": make_float_matmul}
