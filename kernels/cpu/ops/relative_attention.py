"""Attention over the rows of a step, with a bias for each head and distance.

An item is one head of one row. Keys come in eights counted from the first row of the sequence, so
that a row's bits depend on its sequence alone.
"""

import numpy as np

from edgellm.kernels.cpu.exponential import exp
from edgellm.kernels.cpu.layout import NUM_SEQS, QUERY_START, SCRATCH, SCRATCH_BYTES
from edgellm.kernels.cpu.ops.common import f32, i32, inline, number, split
from edgellm.kernels.cpu.simd import first_lane, fma, max_lanes, splat_f32, sum_lanes
from edgellm.kernels.cpu.vector_memory import (
    load_f32,
    load_f32_head,
    store_f32,
    store_f32_head,
    store_f32_one,
)

MINUS_INFINITY = np.float32(-np.inf)
ZERO = np.float32(0.0)
LANES = 8


@inline
def dot(a, b, width):
    """Of two rows of `width` floats."""
    total = splat_f32(ZERO)
    for i in range(0, width, LANES):
        rest = min(LANES, width - i)
        total = fma(load_f32_head(a + 4 * i, rest), load_f32_head(b + 4 * i, rest), total)
    return sum_lanes(total)


@inline
def add_values(out, width, before, weights, values, stride, count):
    """out = before * out + the sum of `count` rows of values, each times its weight."""
    factor = splat_f32(before)
    for i in range(0, width, LANES):
        rest = min(LANES, width - i)
        total = load_f32_head(out + 4 * i, rest) * factor
        for j in range(count):
            value = load_f32_head(values + 4 * (j * stride + i), rest)
            total = fma(splat_f32(f32(weights, j)), value, total)
        store_f32_head(out + 4 * i, total, rest)


def make_relative_attention():
    def relative_attention(args, step, thread, threads):
        """args: q, q stride, k, k stride, v, v stride, output, output stride, heads, kv heads,
        head_dim, value_dim, scale, biases, biases stride, reach.
        """
        heads, per_group, value_dim, reach = args[8], args[8] // args[9], args[11], args[15]
        scale = number(args[12])
        scores = step[SCRATCH] + thread * SCRATCH_BYTES
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            first, last = split((end - begin) * heads, thread, threads)
            for item in range(first, last):
                row, head = begin + item // heads, item % heads
                q = args[0] + 4 * (row * args[1] + head * args[10])
                k = args[2] + 4 * (head // per_group * args[10])
                v = args[4] + 4 * (head // per_group * value_dim)
                out = args[6] + 4 * (row * args[7] + head * value_dim)
                biases = args[13] + 4 * (head * args[14] + reach)
                highest, total = MINUS_INFINITY, ZERO
                for i in range(0, value_dim, LANES):
                    store_f32_head(out + 4 * i, splat_f32(ZERO), min(LANES, value_dim - i))
                for start in range(begin, end, LANES):
                    count = min(LANES, end - start)
                    store_f32(scores, splat_f32(MINUS_INFINITY))
                    for j in range(count):
                        at = start + j
                        bias = f32(biases, max(-reach, min(reach, at - row)))
                        score = dot(q, k + 4 * at * args[3], args[10]) * scale + bias
                        store_f32_one(scores + 4 * j, score)
                    largest = max(highest, max_lanes(load_f32(scores)))
                    before = first_lane(exp(splat_f32(highest - largest)))
                    weights = exp(load_f32(scores) - splat_f32(largest))
                    store_f32(scores, weights)
                    total = total * before + sum_lanes(weights)
                    highest = largest
                    add_values(
                        out, value_dim, before, scores, v + 4 * start * args[5], args[5], count
                    )
                factor = splat_f32(np.float32(1.0) / total)
                for i in range(0, value_dim, LANES):
                    rest = min(LANES, value_dim - i)
                    store_f32_head(out + 4 * i, load_f32_head(out + 4 * i, rest) * factor, rest)

    return relative_attention


KERNELS = {"relative_attention": make_relative_attention}
