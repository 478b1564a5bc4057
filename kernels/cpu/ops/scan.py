"""The recurrence of state space models. Threads share heads; a head's tokens go in order."""

import numpy as np

from edgellm.kernels.cpu.layout import NUM_SEQS, POSITIONS, QUERY_START, STATE_SLOTS, padded
from edgellm.kernels.cpu.ops.common import clear, exp, f32, i32, inline, split
from edgellm.kernels.cpu.simd import (
    fma,
    load_f32,
    load_f32_head,
    splat_f32,
    store_f32,
    store_f32_one,
    sum_lanes,
)


def make_selective_scan(decay_by):
    is_by_head = decay_by == "by_head"
    row_floats = inline(padded)

    @inline
    def channel(state, a, decay, dt, x, b, c, size):
        """One channel's state takes x in; its product with c."""
        taken, total = splat_f32(dt * x), splat_f32(np.float32(0.0))
        for i in range(0, size, 8):
            rest = min(8, size - i)
            if not is_by_head:
                decay = exp(load_f32(a + 4 * i) * splat_f32(dt))
            h = fma(load_f32_head(b + 4 * i, rest), taken, load_f32(state + 4 * i) * decay)
            store_f32(state + 4 * i, h)
            total = fma(h, load_f32_head(c + 4 * i, rest), total)
        return sum_lanes(total)

    def selective_scan(args, step, thread, threads):
        """args: x, x stride, dt, dt stride, b, b stride, c, c stride, output, output stride,
        states, bytes of a slot, a, d, heads, head_dim, groups, state size.

        a: a number for each head, or a padded row of them.
        """
        heads, head_dim, size = args[14], args[15], args[17]
        per_group, row_bytes = heads // args[16], 4 * row_floats(size)
        first, last = split(heads, thread, threads)
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            states = args[10] + i32(step[STATE_SLOTS], sequence) * args[11]
            is_new = i32(step[POSITIONS], begin) == 0
            for head in range(first, last):
                state = states + head * head_dim * row_bytes
                if is_new:
                    clear(state, head_dim * row_bytes)
                a, group = args[12] + head * row_bytes, 4 * (head // per_group * size)
                decay = splat_f32(np.float32(0.0))
                for token in range(begin, end):
                    dt = f32(args[2], token * args[3] + head)
                    if is_by_head:
                        decay = exp(splat_f32(f32(args[12], head) * dt))
                    b = args[4] + 4 * token * args[5] + group
                    c = args[6] + 4 * token * args[7] + group
                    for i in range(head_dim):
                        at = head * head_dim + i
                        x = f32(args[0], token * args[1] + at)
                        y = channel(state + i * row_bytes, a, decay, dt, x, b, c, size)
                        y = y + f32(args[13], head) * x
                        store_f32_one(args[8] + 4 * (token * args[9] + at), y)

    return selective_scan


KERNELS = {"selective_scan": make_selective_scan}
