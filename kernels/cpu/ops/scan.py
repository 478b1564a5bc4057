"""The recurrence of state space models. Threads share heads; a head's tokens go in order."""

import numpy as np

from edgellm.kernels.cpu.exponential import exp
from edgellm.kernels.cpu.layout import NUM_SEQS, POSITIONS, QUERY_START, STATE_SLOTS, padded
from edgellm.kernels.cpu.ops.common import clear, f32, i32, inline, split
from edgellm.kernels.cpu.simd import fma, splat_f32, sum_lanes
from edgellm.kernels.cpu.vector_memory import load_f32, load_f32_head, store_f32, store_f32_one

LINE = 16  # floats of a cache line


def make_selective_scan(decay_by):
    is_by_head = decay_by == "by_head"
    row_floats = inline(padded)

    @inline
    def eight(state, a, decay, dt, taken, b, c, total):
        """Eight numbers of a state take their input; their products with c are added to total."""
        if not is_by_head:
            decay = exp(load_f32(a) * dt)
        h = fma(b, taken, load_f32(state) * decay)
        store_f32(state, h)
        return fma(h, c, total)

    @inline
    def channel(state, a, decay, dt, x, b, c, size):
        """One channel's state takes x in; its product with c."""
        taken, total = splat_f32(dt * x), splat_f32(np.float32(0.0))
        step, whole = splat_f32(dt), size // 8 * 8
        for i in range(0, 4 * whole, 32):
            b_part, c_part = load_f32(b + i), load_f32(c + i)
            total = eight(state + i, a + i, decay, step, taken, b_part, c_part, total)
        if whole < size:
            i, rest = 4 * whole, size - whole
            b_part, c_part = load_f32_head(b + i, rest), load_f32_head(c + i, rest)
            total = eight(state + i, a + i, decay, step, taken, b_part, c_part, total)
        return sum_lanes(total)

    def selective_scan(args, step, thread, threads):
        """args: x, x stride, dt, dt stride, b, b stride, c, c stride, output, output stride,
        states, bytes of a slot, a, d, heads, head_dim, groups, state size.

        a: a number for each head, or a padded row of them.
        """
        heads, head_dim, size = args[14], args[15], args[17]
        per_group, row_bytes = heads // args[16], 4 * row_floats(size)
        first, last = split(heads, thread, threads)
        together = max(1, LINE // head_dim)  # heads: their numbers of a token share a cache line
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            states = args[10] + i32(step[STATE_SLOTS], sequence) * args[11]
            is_new = i32(step[POSITIONS], begin) == 0
            for block in range(first, last, together):
                after = min(block + together, last)
                if is_new:
                    state_bytes = head_dim * row_bytes
                    clear(states + block * state_bytes, (after - block) * state_bytes)
                for token in range(begin, end):
                    for head in range(block, after):
                        dt = f32(args[2], token * args[3] + head)
                        decay = splat_f32(np.float32(0.0))
                        if is_by_head:
                            decay = exp(splat_f32(f32(args[12], head) * dt))
                        group = 4 * (head // per_group * size)
                        b = args[4] + 4 * token * args[5] + group
                        c = args[6] + 4 * token * args[7] + group
                        a = args[12] + head * row_bytes
                        for at in range(head * head_dim, (head + 1) * head_dim):
                            x = f32(args[0], token * args[1] + at)
                            y = channel(states + at * row_bytes, a, decay, dt, x, b, c, size)
                            y = y + f32(args[13], head) * x
                            store_f32_one(args[8] + 4 * (token * args[9] + at), y)

    return selective_scan


KERNELS = {"selective_scan": make_selective_scan}
