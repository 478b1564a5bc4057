"""The delta rule of linear attention. Threads share heads; a head's tokens go in order."""

import numpy as np

from edgellm.kernels.cpu.exponential import exp
from edgellm.kernels.cpu.layout import (
    NUM_SEQS,
    POSITIONS,
    QUERY_START,
    SCRATCH,
    SCRATCH_BYTES,
    STATE_SLOTS,
    padded,
)
from edgellm.kernels.cpu.ops.common import clear, f32, i32, inline, sigmoid, split
from edgellm.kernels.cpu.simd import fma, splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32, load_f32_head, store_f32, store_f32_head


@inline
def sixteen_columns(state, row_bytes, rows, decays, q, k, v, rate, out, count):
    """The state's columns forget, are corrected by k and v, and are read with q.

    count: how many of the columns are there. Addresses; a state's rows are padded to 16 floats.
    """
    low, high = splat_f32(np.float32(0.0)), splat_f32(np.float32(0.0))
    for row in range(rows):
        at = state + row * row_bytes
        decay, key = splat_f32(f32(decays, row)), splat_f32(f32(k, row))
        s, t = load_f32(at) * decay, load_f32(at + 32) * decay
        store_f32(at, s)
        store_f32(at + 32, t)
        low, high = fma(key, s, low), fma(key, t, high)
    more = max(0, count - 8)
    low = (load_f32_head(v, min(8, count)) - low) * rate
    high = (load_f32_head(v + 32, more) - high) * rate
    first, second = splat_f32(np.float32(0.0)), splat_f32(np.float32(0.0))
    for row in range(rows):
        at = state + row * row_bytes
        query, key = splat_f32(f32(q, row)), splat_f32(f32(k, row))
        s, t = fma(key, low, load_f32(at)), fma(key, high, load_f32(at + 32))
        store_f32(at, s)
        store_f32(at + 32, t)
        first, second = fma(query, s, first), fma(query, t, second)
    store_f32_head(out, first, min(8, count))
    store_f32_head(out + 32, second, more)


def make_delta_rule(order, decay_by):
    is_tiled, is_by_head = order == "tiled", decay_by == "by_head"
    row_floats = inline(padded)

    @inline
    def decays_of(a, dt, head, key_dim, target):
        """exp(a dt) for each row of a head's state; dt: the token's."""
        for i in range(0, key_dim, 8):
            if is_by_head:
                x = splat_f32(f32(dt, head))
            else:
                x = load_f32_head(dt + 4 * (head * key_dim + i), min(8, key_dim - i))
            store_f32(target + 4 * i, exp(x * splat_f32(a)))

    def delta_rule(args, step, thread, threads):
        """args: q, q stride, k, k stride, v, v stride, dt, dt stride, beta, beta stride, output,
        output stride, states, bytes of a slot, a, heads, key heads, key_dim, value_dim.
        """
        heads, key_dim, value_dim = args[15], args[17], args[18]
        row_bytes = 4 * row_floats(value_dim)
        decays = step[SCRATCH] + thread * SCRATCH_BYTES
        first, last = split(heads, thread, threads)
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            states = args[12] + i32(step[STATE_SLOTS], sequence) * args[13]
            is_new = i32(step[POSITIONS], begin) == 0
            for head in range(first, last):
                state = states + head * key_dim * row_bytes
                if is_new:
                    clear(state, key_dim * row_bytes)
                key_head = head % args[16] if is_tiled else head // (heads // args[16])
                for token in range(begin, end):
                    dt = args[6] + 4 * token * args[7]
                    decays_of(f32(args[14], head), dt, head, key_dim, decays)
                    rate = sigmoid(splat_f32(f32(args[8], token * args[9] + head)))
                    q = args[0] + 4 * (token * args[1] + key_head * key_dim)
                    k = args[2] + 4 * (token * args[3] + key_head * key_dim)
                    for column in range(0, value_dim, 16):
                        at = head * value_dim + column
                        sixteen_columns(
                            state + 4 * column, row_bytes, key_dim, decays, q, k,
                            args[4] + 4 * (token * args[5] + at), rate,
                            args[10] + 4 * (token * args[11] + at), min(16, value_dim - column),
                        )  # fmt: skip

    return delta_rule


KERNELS = {"delta_rule": make_delta_rule}
