"""Ops whose elements do not meet: sums, factors, caps, copying rows and columns.

Rows lie one after another with padding, so a matrix is one long array that threads share evenly.
"""

import numpy as np

from edgellm.kernels.cpu.layout import LOGITS_ROWS, NUM_OUTPUTS
from edgellm.kernels.cpu.ops.common import i32, number, softplus as softplus_of, split, tanh
from edgellm.kernels.cpu.simd import maximum, minimum, splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32, load_f32_head, store_f32, store_f32_head


def make_add():
    def add(args, step, thread, threads):
        """args: row-count word, a, b, output, row stride."""
        begin, end = split(step[args[0]] * args[4] // 8, thread, threads)
        for i in range(32 * begin, 32 * end, 32):
            store_f32(args[3] + i, load_f32(args[1] + i) + load_f32(args[2] + i))

    return add


def make_multiply():
    def multiply(args, step, thread, threads):
        """args: row-count word, input, output, row stride, factor."""
        begin, end = split(step[args[0]] * args[3] // 8, thread, threads)
        factor = splat_f32(number(args[4]))
        for i in range(32 * begin, 32 * end, 32):
            store_f32(args[2] + i, load_f32(args[1] + i) * factor)

    return multiply


def make_softplus():
    def softplus(args, step, thread, threads):
        """args: row-count word, input, output, row stride, bias or 0."""
        begin, end = split(step[args[0]] * args[3] // 8, thread, threads)
        row_bytes = 4 * args[3]
        for i in range(32 * begin, 32 * end, 32):
            x = load_f32(args[1] + i)
            if args[4]:
                x = x + load_f32(args[4] + i % row_bytes)
            store_f32(args[2] + i, softplus_of(x))

    return softplus


def make_softcap():
    def softcap(args, step, thread, threads):
        """args: row-count word, input, output, row stride, cap."""
        begin, end = split(step[args[0]] * args[3] // 8, thread, threads)
        cap = splat_f32(number(args[4]))
        for i in range(32 * begin, 32 * end, 32):
            store_f32(args[2] + i, cap * tanh(load_f32(args[1] + i) / cap))

    return softcap


def make_clamp():
    def clamp(args, step, thread, threads):
        """args: row-count word, input, output, row stride, limit."""
        begin, end = split(step[args[0]] * args[3] // 8, thread, threads)
        high = splat_f32(number(args[4]))
        low = splat_f32(np.float32(0.0)) - high
        for i in range(32 * begin, 32 * end, 32):
            store_f32(args[2] + i, minimum(maximum(load_f32(args[1] + i), low), high))

    return clamp


def make_multiply_columns():
    def multiply_columns(args, step, thread, threads):
        """args: row-count word, input, output, row stride, factors."""
        row_bytes = 4 * args[3]
        begin, end = split(step[args[0]] * args[3] // 8, thread, threads)
        for i in range(32 * begin, 32 * end, 32):
            store_f32(args[2] + i, load_f32(args[1] + i) * load_f32(args[4] + i % row_bytes))

    return multiply_columns


def make_add_columns():
    def add_columns(args, step, thread, threads):
        """args: row-count word, input, output, row stride, terms."""
        row_bytes = 4 * args[3]
        begin, end = split(step[args[0]] * args[3] // 8, thread, threads)
        for i in range(32 * begin, 32 * end, 32):
            store_f32(args[2] + i, load_f32(args[1] + i) + load_f32(args[4] + i % row_bytes))

    return add_columns


def make_columns():
    def columns(args, step, thread, threads):
        """args: row-count word, input, input stride, output, output stride, parts, width of a part,
        first column, columns.
        """
        parts, width = args[5], args[8]
        begin, end = split(step[args[0]] * parts, thread, threads)
        for item in range(begin, end):
            row, part = item // parts, item % parts
            source = args[1] + 4 * (row * args[2] + part * args[6] + args[7])
            target = args[3] + 4 * (row * args[4] + part * width)
            for i in range(0, width, 8):
                rest = min(8, width - i)
                store_f32_head(target + 4 * i, load_f32_head(source + 4 * i, rest), rest)

    return columns


def make_select_outputs():
    def select_outputs(args, step, thread, threads):
        """args: input, output, row stride."""
        begin, end = split(step[NUM_OUTPUTS], thread, threads)
        row_bytes = 4 * args[2]
        for row in range(begin, end):
            source = args[0] + i32(step[LOGITS_ROWS], row) * row_bytes
            target = args[1] + row * row_bytes
            for i in range(0, row_bytes, 32):
                store_f32(target + i, load_f32(source + i))

    return select_outputs


KERNELS = {
    "add": make_add,
    "multiply": make_multiply,
    "softplus": make_softplus,
    "multiply_columns": make_multiply_columns,
    "add_columns": make_add_columns,
    "softcap": make_softcap,
    "clamp": make_clamp,
    "columns": make_columns,
    "select_outputs": make_select_outputs,
}
