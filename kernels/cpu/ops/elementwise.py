"""Ops whose elements do not meet: add, multiply, softcap, and copying wanted rows.

Rows lie one after another with padding, so a matrix is one long array that threads share evenly.
"""

from edgellm.kernels.cpu.layout import LOGITS_ROWS, NUM_OUTPUTS
from edgellm.kernels.cpu.ops.common import i32, number, split, tanh
from edgellm.kernels.cpu.simd import load_f32, splat_f32, store_f32


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


def make_softcap():
    def softcap(args, step, thread, threads):
        """args: row-count word, input, output, row stride, cap."""
        begin, end = split(step[args[0]] * args[3] // 8, thread, threads)
        cap = splat_f32(number(args[4]))
        for i in range(32 * begin, 32 * end, 32):
            store_f32(args[2] + i, cap * tanh(load_f32(args[1] + i) / cap))

    return softcap


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
    "softcap": make_softcap,
    "select_outputs": make_select_outputs,
}
