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
from edgellm.kernels.cpu.ops.common import inline, split
from edgellm.kernels.cpu.simd import (
    absolute,
    fma,
    max_lanes,
    maximum,
    pointer,
    round_even,
    splat_f32,
    sum_lanes_i32,
    to_i32,
)
from edgellm.kernels.cpu.vector_memory import load_f32, store_f32, store_i32_as_i8

TOP = np.float32(127.0)
ZERO = np.float32(0.0)
TINY = np.float32(1e-30)  # blocks below it become zero: 127 / TINY is still a float32


@inline
def scale_of_block(a, b, c, d):
    """What integers of 32 floats are multiplied with, and its inverse."""
    largest = maximum(maximum(absolute(a), absolute(b)), maximum(absolute(c), absolute(d)))
    top = max_lanes(largest)
    if top > TINY:
        return top / TOP, TOP / top
    return ZERO, ZERO


@inline
def quantize_block(a, b, c, d, q):
    """32 floats to the record at address q."""
    scale, inverse = scale_of_block(a, b, c, d)
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


@inline
def quantize_row(x, q, columns):
    """`columns` floats at address x to records at address q."""
    for block in range(columns // ACTIVATION_BLOCK):
        at = x + 4 * ACTIVATION_BLOCK * block
        a, b, c, d = load_f32(at), load_f32(at + 32), load_f32(at + 64), load_f32(at + 96)
        quantize_block(a, b, c, d, q + block * ACTIVATION_BYTES)


def make_quantize():
    def quantize(args, step, thread, threads):
        """args: row-count word, input, input stride, output, output row bytes, columns."""
        blocks = args[5] // ACTIVATION_BLOCK
        begin, end = split(step[args[0]] * blocks, thread, threads)
        for item in range(begin, end):
            row, block = item // blocks, item % blocks
            x = args[1] + 4 * (row * args[2] + ACTIVATION_BLOCK * block)
            quantize_row(x, args[3] + row * args[4] + block * ACTIVATION_BYTES, ACTIVATION_BLOCK)

    return quantize


def make_remainder():
    def remainder(args, step, thread, threads):
        """args: row-count word, input, row stride, output, columns."""
        begin, end = split(step[args[0]], thread, threads)
        for row in range(begin, end):
            for start in range(4 * row * args[2], 4 * (row * args[2] + args[4]), 128):
                x, y = args[1] + start, args[3] + start
                scale, inverse = scale_of_block(
                    load_f32(x), load_f32(x + 32), load_f32(x + 64), load_f32(x + 96)
                )
                factor, minus = splat_f32(inverse), splat_f32(-scale)
                for i in range(0, 128, 32):
                    value = load_f32(x + i)
                    store_f32(y + i, fma(minus, round_even(value * factor), value))

    return remainder


KERNELS = {"quantize": make_quantize, "remainder": make_remainder}
