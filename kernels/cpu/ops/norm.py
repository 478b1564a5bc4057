"""Root mean square normalisation of rows, or of the heads of rows, with what surrounds it."""

import numpy as np

from edgellm.kernels.cpu.ops.common import inline, number, split
from edgellm.kernels.cpu.ops.quantize import quantize_row
from edgellm.kernels.cpu.simd import (
    fma,
    load_f32,
    load_f32_head,
    splat_f32,
    sqrt_scalar,
    store_f32,
    store_f32_head,
    sum_lanes,
)


@inline
def add_row(a, b, out, width):
    """out = a + b, a row each."""
    for i in range(0, width, 8):
        rest = min(8, width - i)
        value = load_f32_head(a + 4 * i, rest) + load_f32_head(b + 4 * i, rest)
        store_f32_head(out + 4 * i, value, rest)


def make_rms_norm(weighted):
    has_weight = weighted == "weighted"

    def rms_norm(args, step, thread, threads):
        """args: row-count word, input, second input or 0, their sum or 0, output, row stride,
        weight, bytes from one head's weight to the next, width, heads, eps, int8 output or 0, its
        row bytes.

        With a second input (one head) the sum of both is normalised, and written too.
        """
        stride, width, heads = args[5], args[8], args[9]
        eps = number(args[10])
        whole = width // 8 * 8
        rest = width - whole
        begin, end = split(step[args[0]] * heads, thread, threads)
        for item in range(begin, end):
            start = 4 * (item // heads * stride + item % heads * width)
            x, y = args[1] + start, args[4] + start
            weight = args[6] + item % heads * args[7]
            if args[2]:
                add_row(x, args[2] + start, args[3] + start, width)
                x = args[3] + start
            squares = splat_f32(np.float32(0.0))
            for i in range(0, whole, 8):
                value = load_f32(x + 4 * i)
                squares = fma(value, value, squares)
            if rest:
                value = load_f32_head(x + 4 * whole, rest)
                squares = fma(value, value, squares)
            mean = sum_lanes(squares) / np.float32(width)
            inverse = splat_f32(np.float32(1.0) / sqrt_scalar(mean + eps))
            for i in range(0, whole, 8):
                value = load_f32(x + 4 * i) * inverse
                if has_weight:
                    value = value * load_f32(weight + 4 * i)
                store_f32(y + 4 * i, value)
            if rest:
                value = load_f32_head(x + 4 * whole, rest) * inverse
                if has_weight:
                    value = value * load_f32_head(weight + 4 * whole, rest)
                store_f32_head(y + 4 * whole, value, rest)
            if args[11]:
                quantize_row(y, args[11] + item * args[12], width)

    return rms_norm


KERNELS = {"rms_norm": make_rms_norm}
