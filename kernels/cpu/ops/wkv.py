"""The recurrence of RWKV-7. Threads share heads; a head's tokens go in order."""

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

RATE = np.float32(-np.exp(-0.5))


@inline
def decays_of(w, head_dim, target):
    """exp(RATE sigmoid(w)) for each row of a head's state."""
    for i in range(0, head_dim, 8):
        x = sigmoid(load_f32_head(w + 4 * i, min(8, head_dim - i)))
        store_f32(target + 4 * i, exp(x * splat_f32(RATE)))


@inline
def eight_columns(state, row_bytes, rows, decays, r, k, v, a, b, out, count):
    """`count` columns of a state are read with a, forget, take in, and are read with r."""
    seen, total = splat_f32(np.float32(0.0)), splat_f32(np.float32(0.0))
    value = load_f32_head(v, count)
    for row in range(rows):
        seen = fma(splat_f32(f32(a, row)), load_f32(state + row * row_bytes), seen)
    for row in range(rows):
        at = state + row * row_bytes
        kept = load_f32(at) * splat_f32(f32(decays, row))
        s = fma(splat_f32(f32(k, row)), value, fma(splat_f32(f32(b, row)), seen, kept))
        store_f32(at, s)
        total = fma(splat_f32(f32(r, row)), s, total)
    store_f32_head(out, total, count)


def make_wkv7():
    row_floats = inline(padded)

    def wkv7(args, step, thread, threads):
        """args: r, r stride, w, w stride, k, k stride, v, v stride, a, a stride, b, b stride,
        output, output stride, states, bytes of a slot, heads, head_dim.
        """
        head_dim = args[17]
        row_bytes = 4 * row_floats(head_dim)
        decays = step[SCRATCH] + thread * SCRATCH_BYTES
        first, last = split(args[16], thread, threads)
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            states = args[14] + i32(step[STATE_SLOTS], sequence) * args[15]
            is_new = i32(step[POSITIONS], begin) == 0
            for head in range(first, last):
                state, at = states + head * head_dim * row_bytes, head * head_dim
                if is_new:
                    clear(state, head_dim * row_bytes)
                for token in range(begin, end):
                    decays_of(args[2] + 4 * (token * args[3] + at), head_dim, decays)
                    r = args[0] + 4 * (token * args[1] + at)
                    k = args[4] + 4 * (token * args[5] + at)
                    v = args[6] + 4 * (token * args[7] + at)
                    a = args[8] + 4 * (token * args[9] + at)
                    b = args[10] + 4 * (token * args[11] + at)
                    out = args[12] + 4 * (token * args[13] + at)
                    for i in range(0, head_dim, 8):
                        eight_columns(
                            state + 4 * i, row_bytes, head_dim, decays, r, k, v + 4 * i, a, b,
                            out + 4 * i, min(8, head_dim - i),
                        )  # fmt: skip

    return wkv7


KERNELS = {"wkv7": make_wkv7}
