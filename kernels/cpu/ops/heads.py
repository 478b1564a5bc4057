"""Joining the heads of two values, scaling those of one."""

from edgellm.kernels.cpu.ops.common import f32, inline, split
from edgellm.kernels.cpu.simd import splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32, load_f32_head, store_f32, store_f32_head


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


def make_scale_heads():
    def scale_heads(args, step, thread, threads):
        """args: row-count word, x, its stride, numbers per head, heads, factors, their stride,
        output.
        """
        begin, end = split(step[args[0]] * args[4], thread, threads)
        for item in range(begin, end):
            row, head = item // args[4], item % args[4]
            start = 4 * (row * args[2] + head * args[3])
            factor = splat_f32(f32(args[5], row * args[6] + head))
            for i in range(0, args[3], 8):
                rest, at = min(8, args[3] - i), start + 4 * i
                store_f32_head(args[7] + at, load_f32_head(args[1] + at, rest) * factor, rest)

    return scale_heads


KERNELS = {"concat_heads": make_concat_heads, "scale_heads": make_scale_heads}
