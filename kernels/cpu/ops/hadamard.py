"""The Walsh-Hadamard transform of heads, for quantised caches; kv.py says what it is good for."""

import numpy as np

from edgellm.kernels.cpu.ops.common import number, split
from edgellm.kernels.cpu.simd import pointer


def make_hadamard():
    def hadamard(args, step, thread, threads):
        """args: x, output, stride of both, index of the step word with the number of rows, heads,
        head_dim (a power of two), factor.
        """
        heads, size, factor = args[4], args[5], number(args[6])
        begin, end = split(step[args[3]] * heads, thread, threads)
        for item in range(begin, end):
            at = 4 * (item // heads * args[2] + item % heads * size)
            x, y = pointer(args[0] + at, np.float32), pointer(args[1] + at, np.float32)
            for i in range(size):
                y[i] = x[i] * factor
            half = 1
            while half < size:
                for start in range(0, size, 2 * half):
                    for i in range(start, start + half):
                        a, b = y[i], y[i + half]
                        y[i], y[i + half] = a + b, a - b
                half *= 2

    return hadamard


KERNELS = {"hadamard": make_hadamard}
