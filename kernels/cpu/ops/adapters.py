"""Adding what an adapter changes, by the scale of each row's sequence."""

import numpy as np

from edgellm.kernels.cpu.layout import (
    ADAPTER_SCALES,
    LOGITS_ROWS,
    NUM_ADAPTERS,
    NUM_OUTPUTS,
    NUM_TOKENS,
)
from edgellm.kernels.cpu.ops.common import f32, i32, split
from edgellm.kernels.cpu.simd import fma, splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32, store_f32

ZERO = np.float32(0.0)


def make_add_scaled(rows):
    is_outputs = rows == "outputs"
    count_word = NUM_OUTPUTS if is_outputs else NUM_TOKENS

    def add_scaled(args, step, thread, threads):
        """args: x, change, its row stride (0: one row for all), output, row stride, adapter."""
        row_bytes = 4 * args[4]
        begin, end = split(step[count_word], thread, threads)
        for row in range(begin, end):
            token = i32(step[LOGITS_ROWS], row) if is_outputs else row
            factor = f32(step[ADAPTER_SCALES], token * step[NUM_ADAPTERS] + args[5])
            x, y = args[0] + row * row_bytes, args[3] + row * row_bytes
            change, scale = args[1] + 4 * row * args[2], splat_f32(factor)
            for i in range(0, row_bytes, 32):
                value = load_f32(x + i)
                if factor != ZERO:
                    value = fma(scale, load_f32(change + i), value)
                store_f32(y + i, value)

    return add_scaled


KERNELS = {"add_scaled": make_add_scaled}
