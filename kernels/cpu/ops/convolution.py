"""Causal convolution along a sequence, each channel alone. Threads share channels."""

import numpy as np

from edgellm.kernels.cpu.layout import NUM_SEQS, POSITIONS, QUERY_START, STATE_SLOTS
from edgellm.kernels.cpu.ops.common import clear, i32, inline, sigmoid, split
from edgellm.kernels.cpu.simd import fma, splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32, store_f32

BLOCK = 16  # vectors of a row at a time: what a block reads stays in the first cache


def make_short_convolution(activation):
    has_silu = activation == "silu"

    @inline
    def row_at(args, state, history, begin, token, column):
        """x of a token, or what the state has of one before the first of this step."""
        if token >= begin:
            return load_f32(args[0] + 4 * token * args[1] + column)
        return load_f32(state + 4 * (token - begin + history) * args[1] + column)

    @inline
    def convolved(args, state, history, begin, token, column):
        total = splat_f32(np.float32(0.0))
        for tap in range(history + 1):
            x = row_at(args, state, history, begin, token - history + tap, column)
            total = fma(x, load_f32(args[6] + 4 * tap * args[1] + column), total)
        if args[7]:
            total = total + load_f32(args[7] + column)
        return total * sigmoid(total) if has_silu else total

    def short_convolution(args, step, thread, threads):
        """args: x, x stride, output, output stride, states, bytes of a slot, weight (kernel rows of
        x stride), bias or 0, kernel.

        A state is the kernel - 1 rows before the first of this step.
        """
        history = args[8] - 1
        first, last = split(args[1] // 8, thread, threads)
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            state = args[4] + i32(step[STATE_SLOTS], sequence) * args[5]
            is_new = i32(step[POSITIONS], begin) == 0
            for block in range(first, last, BLOCK):
                left, right = 32 * block, 32 * min(block + BLOCK, last)
                if is_new:
                    for row in range(history):
                        clear(state + 4 * row * args[1] + left, right - left)
                for token in range(begin, end):
                    for column in range(left, right, 32):
                        y = convolved(args, state, history, begin, token, column)
                        store_f32(args[2] + 4 * token * args[3] + column, y)
                for row in range(history):
                    for column in range(left, right, 32):
                        x = row_at(args, state, history, begin, end - history + row, column)
                        store_f32(state + 4 * row * args[1] + column, x)

    return short_convolution


KERNELS = {"short_convolution": make_short_convolution}
