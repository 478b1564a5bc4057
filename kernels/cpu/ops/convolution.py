"""Causal convolution along a sequence, each channel alone. Threads share channels."""

import numpy as np

from edgellm.kernels.cpu.layout import NUM_SEQS, POSITIONS, QUERY_START, STATE_SLOTS
from edgellm.kernels.cpu.ops.common import i32, sigmoid, split
from edgellm.kernels.cpu.simd import fma, load_f32, splat_f32, store_f32


def make_short_convolution(activation):
    has_silu = activation == "silu"

    def short_convolution(args, step, thread, threads):
        """args: x, x stride, output, output stride, states, bytes of a slot, weight (kernel rows of
        x stride), bias or 0, kernel.

        A state is the kernel - 1 rows before the first of this step.
        """
        row_bytes, kernel = 4 * args[1], args[8]
        history = kernel - 1
        first, last = split(args[1] // 8, thread, threads)
        zero = splat_f32(np.float32(0.0))
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            state = args[4] + i32(step[STATE_SLOTS], sequence) * args[5]
            is_new = i32(step[POSITIONS], begin) == 0
            for column in range(32 * first, 32 * last, 32):
                if is_new:
                    for row in range(history):
                        store_f32(state + row * row_bytes + column, zero)
                for token in range(begin, end):
                    total = zero
                    for tap in range(kernel):
                        at = token - history + tap
                        if at >= begin:
                            x = load_f32(args[0] + at * row_bytes + column)
                        else:
                            x = load_f32(state + (at - begin + history) * row_bytes + column)
                        total = fma(x, load_f32(args[6] + tap * row_bytes + column), total)
                    if args[7]:
                        total = total + load_f32(args[7] + column)
                    if has_silu:
                        total = total * sigmoid(total)
                    store_f32(args[2] + 4 * token * args[3] + column, total)
                for row in range(history):
                    at = end - history + row
                    if at >= begin:
                        x = load_f32(args[0] + at * row_bytes + column)
                    else:
                        x = load_f32(state + (at - begin + history) * row_bytes + column)
                    store_f32(state + row * row_bytes + column, x)

    return short_convolution


KERNELS = {"short_convolution": make_short_convolution}
