"""Activations to int8: per 32 values one scale d = max|x| / 127, and d times sums of the integers.

One format for all weight types; layout.py has the row layout.
"""

import numpy as np

from edgellm.kernels.cpu.layout import (
    ACTIVATION_BLOCK,
    ACTIVATION_BYTES,
    MINUS_SUM,
    MINUS_SUM_16,
    SCALE,
    SCALED_SUM,
    SCALED_SUM_16,
)
from edgellm.kernels.cpu.ops.common import split
from edgellm.kernels.cpu.simd import (
    absolute,
    load_f32,
    max_lanes,
    maximum,
    pointer,
    round_even,
    splat_f32,
    store_i32_as_i8,
    sum_lanes_i32,
    to_i32,
)

TOP = np.float32(127.0)
ZERO = np.float32(0.0)
TINY = np.float32(1e-30)  # blocks below it become zero: 127 / TINY is still a float32


def make_quantize():
    def quantize(args, step, thread, threads):
        """args: row-count word, input, input stride, output, output row bytes, columns."""
        columns = args[5]
        blocks = columns // ACTIVATION_BLOCK
        begin, end = split(step[args[0]] * blocks, thread, threads)
        for item in range(begin, end):
            row, block = item // blocks, item % blocks
            x = args[1] + 4 * (row * args[2] + ACTIVATION_BLOCK * block)
            q = args[3] + row * args[4] + block * ACTIVATION_BYTES
            a, b = load_f32(x), load_f32(x + 32)
            c, d = load_f32(x + 64), load_f32(x + 96)
            largest = maximum(maximum(absolute(a), absolute(b)), maximum(absolute(c), absolute(d)))
            top = max_lanes(largest)
            scale, inverse = ZERO, ZERO
            if top > TINY:
                scale, inverse = top / TOP, TOP / top
            factor = splat_f32(inverse)
            qa, qb = to_i32(round_even(a * factor)), to_i32(round_even(b * factor))
            qc, qd = to_i32(round_even(c * factor)), to_i32(round_even(d * factor))
            store_i32_as_i8(q, qa)
            store_i32_as_i8(q + 8, qb)
            store_i32_as_i8(q + 16, qc)
            store_i32_as_i8(q + 24, qd)
            low, high = sum_lanes_i32(qa + qb), sum_lanes_i32(qc + qd)
            floats, integers = pointer(q, np.float32), pointer(q, np.int32)
            floats[SCALE // 4] = scale
            floats[SCALED_SUM // 4] = scale * np.float32(low + high)
            integers[MINUS_SUM // 4] = -(low + high)
            integers[MINUS_SUM_16 // 4] = -low
            integers[MINUS_SUM_16 // 4 + 1] = -high
            floats[SCALED_SUM_16 // 4] = scale * np.float32(low)
            floats[SCALED_SUM_16 // 4 + 1] = scale * np.float32(high)

    return quantize


KERNELS = {"quantize": make_quantize}
