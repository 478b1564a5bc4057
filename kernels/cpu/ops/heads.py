"""Joining the heads of two values."""

from edgellm.kernels.cpu.ops.common import inline, split
from edgellm.kernels.cpu.simd import load_f32, load_f32_head, store_f32, store_f32_head


@inline
def copy(source, target, count):
    """`count` float32."""
    whole = count // 8 * 8
    for i in range(0, 4 * whole, 32):
        store_f32(target + i, load_f32(source + i))
    if whole < count:
        rest = count - whole
        store_f32_head(target + 4 * whole, load_f32_head(source + 4 * whole, rest), rest)


def make_concat_heads():
    def concat_heads(args, step, thread, threads):
        """args: row-count word, a, its stride, its numbers per head, b, its stride, its numbers per
        head, output, its stride, heads.
        """
        begin, end = split(step[args[0]], thread, threads)
        for row in range(begin, end):
            for head in range(args[9]):
                y = args[7] + 4 * (row * args[8] + head * (args[3] + args[6]))
                copy(args[1] + 4 * (row * args[2] + head * args[3]), y, args[3])
                copy(args[4] + 4 * (row * args[5] + head * args[6]), y + 4 * args[3], args[6])

    return concat_heads


KERNELS = {"concat_heads": make_concat_heads}
