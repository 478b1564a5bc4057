"""Products with float weights: 8 partial sums by k mod 8 and a fixed tree, whatever the batch."""

import numpy as np

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
    dots = make_dots(by_id(int(type_id)))

    def float_matmul(args, step, thread, threads):
        """args: row-count word, x, x row bytes, y, y stride, weight, weight row bytes, rows,
        columns, bias, scale.

        Tokens go in fours; the last four overlap when there are not enough, with the same bits.
        """
        tokens = step[args[0]]
        x, x_bytes, stride = args[1], args[2], args[4]
        y = pointer(args[3], np.float32)
        begin, end = split(args[7], thread, threads)
        for row in range(begin, end):
            w = args[5] + row * args[6]
            for token in range(0, tokens, 4):
                t1, t2 = min(token + 1, tokens - 1), min(token + 2, tokens - 1)
                t3 = min(token + 3, tokens - 1)
                d0, d1, d2, d3 = dots(
                    x + token * x_bytes,
                    x + t1 * x_bytes,
                    x + t2 * x_bytes,
                    x + t3 * x_bytes,
                    w,
                    args[8],
                )
                y[t3 * stride + row] = finish(d3, args[9], args[10], row)
                y[t2 * stride + row] = finish(d2, args[9], args[10], row)
                y[t1 * stride + row] = finish(d1, args[9], args[10], row)
                y[token * stride + row] = finish(d0, args[9], args[10], row)

    return float_matmul


KERNELS = {"float_matmul": make_float_matmul}
