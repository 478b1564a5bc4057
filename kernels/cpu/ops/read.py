"""A plain read of memory: the speed that no kernel which needs those bytes can pass.

Sums what it reads, so that nothing of it can be left out.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from edgellm.kernels.cpu.layout import LINE
from edgellm.kernels.cpu.ops.common import split
from edgellm.kernels.cpu.simd import pointer, sum_lanes_i32
from edgellm.kernels.cpu.vectors import I32, ONCE, fixed_intrinsic, i32x8, prefetch

AHEAD = 64 * LINE  # asked for before it is read; what the processor does by itself is slower


@fixed_intrinsic(i32x8, types.int64)
def line_sum(b: Any, address: Any) -> Any:
    """One line's two vectors of int32, added; the line AHEAD bytes later is asked for."""
    prefetch(b, b.add(address, address.type(AHEAD)), ONCE)
    line = b.inttoptr(address, i32x8.llvm.as_pointer())
    halves = [b.load(b.gep(line, [I32(half)])) for half in range(2)]
    for half in halves:
        half.align = 4
    return b.add(*halves)


@fixed_intrinsic(i32x8)
def zeros(b: Any) -> Any:
    return ir.Constant(i32x8.llvm, [0] * 8)


def make_read():
    def read(args, step, thread, threads):
        """args: ranges (each an address and a number of 64-byte lines), their number, sums.

        Each thread reads its part of every range and writes the int32 sum of all its words.
        """
        ranges = pointer(args[0], np.int64)
        total = zeros()
        for i in range(args[1]):
            begin, end = split(ranges[2 * i + 1], thread, threads)
            for line in range(begin, end):
                total = total + line_sum(ranges[2 * i] + line * LINE)
        pointer(args[2], np.int64)[thread] = sum_lanes_i32(total)

    return read


KERNELS = {"read": make_read}
