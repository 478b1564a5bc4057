"""Rotary position embedding: the table of a step, and its use."""

import math

import numpy as np

from edgellm.kernels.cpu.layout import NUM_TOKENS, POSITIONS
from edgellm.kernels.cpu.ops.common import f32, i32, number, split
from edgellm.kernels.cpu.simd import load_f32, load_f32_head, pointer, store_f32, store_f32_head


def make_rope_table():
    def rope_table(args, step, thread, threads):
        """args: output, row stride, inverse frequencies, how many, magnitude."""
        half = args[3]
        magnitude = np.float64(number(args[4]))
        begin, end = split(step[NUM_TOKENS], thread, threads)
        for token in range(begin, end):
            row = pointer(args[0] + 4 * token * args[1], np.float32)
            position = np.float64(i32(step[POSITIONS], token))
            for i in range(half):
                angle = position * np.float64(f32(args[2], i))
                row[i] = np.float32(math.cos(angle) * magnitude)
                row[half + i] = np.float32(math.sin(angle) * magnitude)

    return rope_table


def make_rope(layout):
    is_split = layout == "split"

    def rope(args, step, thread, threads):
        """args: input, output, row stride, table, table stride, half, heads, head_dim."""
        half, heads, head_dim = args[5], args[6], args[7]
        begin, end = split(step[NUM_TOKENS] * heads, thread, threads)
        for item in range(begin, end):
            token = item // heads
            start = 4 * (token * args[2] + item % heads * head_dim)
            x, y = args[0] + start, args[1] + start
            cosines = args[3] + 4 * token * args[4]
            sines = cosines + 4 * half
            if is_split:
                whole = half // 8 * 8
                for i in range(0, 4 * whole, 32):
                    c, s = load_f32(cosines + i), load_f32(sines + i)
                    a, b = load_f32(x + i), load_f32(x + 4 * half + i)
                    store_f32(y + i, a * c - b * s)
                    store_f32(y + 4 * half + i, a * s + b * c)
                if whole < half:
                    i, rest = 4 * whole, half - whole
                    c, s = load_f32_head(cosines + i, rest), load_f32_head(sines + i, rest)
                    a, b = load_f32_head(x + i, rest), load_f32_head(x + 4 * half + i, rest)
                    store_f32_head(y + i, a * c - b * s, rest)
                    store_f32_head(y + 4 * half + i, a * s + b * c, rest)
            else:
                source, target = pointer(x, np.float32), pointer(y, np.float32)
                for i in range(half):
                    c, s = f32(cosines, i), f32(sines, i)
                    a, b = source[2 * i], source[2 * i + 1]
                    target[2 * i] = a * c - b * s
                    target[2 * i + 1] = a * s + b * c
            source, target = pointer(x, np.float32), pointer(y, np.float32)
            for i in range(2 * half, head_dim):
                target[i] = source[i]

    return rope


KERNELS = {"rope_table": make_rope_table, "rope": make_rope}
