"""Products with block-format weights and int8 activations, one kernel per format."""

import numpy as np

from edgellm.kernels.cpu.layout import SCRATCH, SCRATCH_BYTES
from edgellm.kernels.cpu.ops.common import split
from edgellm.kernels.cpu.ops.float_matmul import finish
from edgellm.kernels.cpu.ops.panel import (
    PANEL_COLUMNS,
    STRIP,
    SUMS_AT,
    TOKEN_BLOCK,
    clear,
    make_fill,
    make_tiles,
)
from edgellm.kernels.cpu.simd import pointer
from edgellm.kernels.formats import by_id


def make_matmul(type_id):
    fmt = by_id(int(type_id))
    block_size, type_size = fmt.block_size, fmt.type_size
    fill = make_fill(fmt)
    one, four = make_tiles(fmt)

    def matmul(args, step, thread, threads):
        """args: row-count word, x, x row bytes, y, y stride, weight, weight row bytes, rows,
        columns, bias, scale.

        Each thread does a contiguous range of strips for all tokens.
        """
        tokens, x, x_bytes = step[args[0]], args[1], args[2]
        stride, rows, columns = args[4], args[7], args[8]
        y = pointer(args[3], np.float32)
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        sums = scratch + SUMS_AT
        begin, end = split((rows + STRIP - 1) // STRIP, thread, threads)
        for strip in range(begin, end):
            first = STRIP * strip
            for t0 in range(0, tokens, TOKEN_BLOCK):
                count = min(TOKEN_BLOCK, tokens - t0)
                clear(sums, count)
                for k0 in range(0, columns, PANEL_COLUMNS):
                    width = min(PANEL_COLUMNS, columns - k0)
                    weight = args[5] + k0 // block_size * type_size
                    fill(scratch, weight, args[6], first, rows - 1, width)
                    t = 0
                    while t + 4 <= count:
                        row = x + (t0 + t) * x_bytes
                        four(scratch, sums + 32 * t, row, x_bytes, k0, columns, width)
                        t += 4
                    while t < count:
                        row = x + (t0 + t) * x_bytes
                        one(scratch, sums + 32 * t, row, k0, columns, width)
                        t += 1
                values = pointer(sums, np.float32)
                for t in range(count):
                    for r in range(min(STRIP, rows - first)):
                        value = finish(values[STRIP * t + r], args[9], args[10], first + r)
                        y[(t0 + t) * stride + first + r] = value

    return matmul


KERNELS = {"matmul": make_matmul}
