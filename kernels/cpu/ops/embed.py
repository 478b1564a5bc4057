"""Rows of a table that tokens or positions choose, dequantised."""

import numpy as np

from edgellm.kernels.cpu.compile import jit_tree
from edgellm.kernels.cpu.layout import NUM_TOKENS, SCRATCH, SCRATCH_BYTES
from edgellm.kernels.cpu.ops.common import i32, number, split
from edgellm.kernels.cpu.ops.float_matmul import LOADS
from edgellm.kernels.cpu.simd import pointer, splat_f32
from edgellm.kernels.cpu.vector_memory import store_f32, store_f32_head
from edgellm.kernels.formats import by_id


def make_embed(type_id):
    fmt = by_id(int(type_id))
    return _float_embed(fmt) if fmt.unpack is None else _block_embed(fmt)


def _float_embed(fmt):
    load, load_head = LOADS[fmt.name]
    element = fmt.type_size

    def embed(args, step, thread, threads):
        """args: table, bytes per table row, columns, output, row stride, scale,
        step word of the row numbers.
        """
        whole = args[2] // 8 * 8
        factor = splat_f32(number(args[5]))
        begin, end = split(step[NUM_TOKENS], thread, threads)
        for token in range(begin, end):
            source = args[0] + i32(step[args[6]], token) * args[1]
            target = args[3] + 4 * token * args[4]
            for i in range(0, whole, 8):
                store_f32(target + 4 * i, load(source + i * element) * factor)
            if whole < args[2]:
                rest = args[2] - whole
                value = load_head(source + whole * element, rest) * factor
                store_f32_head(target + 4 * whole, value, rest)

    return embed


def _block_embed(fmt):
    unpack = jit_tree(fmt.unpack)
    block_size, type_size, group = fmt.block_size, fmt.type_size, fmt.group_size
    groups = block_size // group
    has_min = fmt.has_min

    def embed(args, step, thread, threads):
        """args: table, bytes per table row, columns, output, row stride, scale,
        step word of the row numbers.
        """
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        q = pointer(scratch, np.int8)
        scales = pointer(scratch + block_size, np.float32)
        mins = pointer(scratch + block_size + 4 * groups, np.float32)
        factor = number(args[5])
        begin, end = split(step[NUM_TOKENS], thread, threads)
        for token in range(begin, end):
            source = args[0] + i32(step[args[6]], token) * args[1]
            target = pointer(args[3] + 4 * token * args[4], np.float32)
            for block in range(args[2] // block_size):
                unpack(pointer(source + block * type_size, np.uint8), q, scales, mins)
                for i in range(block_size):
                    value = scales[i // group] * np.float32(q[i])
                    if has_min:
                        value = value + mins[i // group]
                    target[block * block_size + i] = value * factor

    return embed


KERNELS = {"embed": make_embed}
