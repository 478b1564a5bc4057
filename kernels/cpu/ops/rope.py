"""What positions do to rows: rotary embedding, its table of a step, and a scale by position."""

import math

import numpy as np

from edgellm.kernels.cpu.layout import NUM_TOKENS, POSITIONS
from edgellm.kernels.cpu.ops.common import f32, i32, number, split
from edgellm.kernels.cpu.simd import pointer, splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32, load_f32_head, store_f32, store_f32_head


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


def make_position_scale():
    def position_scale(args, step, thread, threads):
        """args: input, output, row stride, length, factor, offset."""
        begin, end = split(step[NUM_TOKENS], thread, threads)
        for token in range(begin, end):
            whole = (i32(step[POSITIONS], token) + args[5]) // args[3]
            factor = 1.0 + np.float64(number(args[4])) * math.log(np.float64(1 + whole))
            scale = splat_f32(np.float32(factor))
            start = 4 * token * args[2]
            for i in range(start, start + 4 * args[2], 32):
                store_f32(args[1] + i, load_f32(args[0] + i) * scale)

    return position_scale


KERNELS = {
    "rope_table": make_rope_table,
    "rope": make_rope,
    "position_scale": make_position_scale,
}
