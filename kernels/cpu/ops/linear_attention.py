"""Linear attention that forgets by row. Threads share heads; a head's tokens go in order."""

import numpy as np

from edgellm.kernels.cpu.layout import NUM_SEQS, POSITIONS, QUERY_START, STATE_SLOTS, padded
from edgellm.kernels.cpu.ops.common import clear, f32, i32, inline, split
from edgellm.kernels.cpu.simd import fma, splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32, load_f32_head, store_f32, store_f32_head

ZERO = np.float32(0.0)


def make_linear_attention(kind):
    row_floats = inline(padded)
    has_bonus = kind == "with_bonus"

    @inline
    def eight_columns(state, row_bytes, rows, r, decay, k, v, bonus, out, count):
        """`count` columns of a state forget and take in, and are read with r."""
        total, value = splat_f32(ZERO), load_f32_head(v, count)
        for row in range(rows):
            at = state + row * row_bytes
            before = load_f32(at)
            new = splat_f32(f32(k, row)) * value
            after = fma(before, splat_f32(f32(decay, row)), new)
            store_f32(at, after)
            seen = fma(new, splat_f32(f32(bonus, row)), before) if has_bonus else after
            total = fma(splat_f32(f32(r, row)), seen, total)
        store_f32_head(out, total, count)

    def linear_attention(args, step, thread, threads):
        """args: r, r stride, decay, its stride, k, k stride, v, v stride, output, output stride,
        states, bytes of a slot, heads, head_dim, bonus or 0.
        """
        head_dim = args[13]
        row_bytes = 4 * row_floats(head_dim)
        first, last = split(args[12], thread, threads)
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            states = args[10] + i32(step[STATE_SLOTS], sequence) * args[11]
            is_new = i32(step[POSITIONS], begin) == 0
            for head in range(first, last):
                state, at = states + head * head_dim * row_bytes, head * head_dim
                if is_new:
                    clear(state, head_dim * row_bytes)
                for token in range(begin, end):
                    r = args[0] + 4 * (token * args[1] + at)
                    decay = args[2] + 4 * (token * args[3] + at)
                    k = args[4] + 4 * (token * args[5] + at)
                    v = args[6] + 4 * (token * args[7] + at)
                    out = args[8] + 4 * (token * args[9] + at)
                    for i in range(0, head_dim, 8):
                        eight_columns(
                            state + 4 * i, row_bytes, head_dim, r, decay, k, v + 4 * i,
                            args[14] + 4 * at, out + 4 * i, min(8, head_dim - i),
                        )  # fmt: skip

    return linear_attention


KERNELS = {"linear_attention": make_linear_attention}
