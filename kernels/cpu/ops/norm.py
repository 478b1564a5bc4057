"""Norms of rows, or of the heads of rows, with what surrounds them: the addition before, the int8
form after; and what else needs the mean of a row.
"""

import numpy as np

from edgellm.kernels.cpu.ops.common import inline, number, split
from edgellm.kernels.cpu.ops.quantize import quantize_row
from edgellm.kernels.cpu.simd import fma, maximum, splat_f32, sqrt_scalar, sum_lanes
from edgellm.kernels.cpu.vector_memory import load_f32, load_f32_head, store_f32, store_f32_head

ZERO = np.float32(0.0)


@inline
def add_row(a, b, out, width):
    """out = a + b, a row each."""
    for i in range(0, width, 8):
        rest = min(8, width - i)
        value = load_f32_head(a + 4 * i, rest) + load_f32_head(b + 4 * i, rest)
        store_f32_head(out + 4 * i, value, rest)


@inline
def mean_of(x, width):
    """Of `width` floats at address x."""
    whole = width // 8 * 8
    total = splat_f32(ZERO)
    for i in range(0, whole, 8):
        total = total + load_f32(x + 4 * i)
    if whole < width:
        total = total + load_f32_head(x + 4 * whole, width - whole)
    return sum_lanes(total) / np.float32(width)


@inline
def centre_row(x, y, width):
    """y = x less its mean."""
    mean = splat_f32(mean_of(x, width))
    for i in range(0, width, 8):
        rest = min(8, width - i)
        store_f32_head(y + 4 * i, load_f32_head(x + 4 * i, rest) - mean, rest)


@inline
def mean_square(x, width):
    """Of `width` floats at address x."""
    whole = width // 8 * 8
    squares = splat_f32(ZERO)
    for i in range(0, whole, 8):
        value = load_f32(x + 4 * i)
        squares = fma(value, value, squares)
    if whole < width:
        value = load_f32_head(x + 4 * whole, width - whole)
        squares = fma(value, value, squares)
    return sum_lanes(squares) / np.float32(width)


def _make_norm(is_centred, has_weight, has_bias):
    """A norm kernel. Its words: row-count word, input, second input or 0, their sum or 0, output,
    row stride, weight, bytes from one head's weight and bias to the next's, width, heads, eps, int8
    output or 0, its row bytes, bias.

    With a second input (one head) the sum of both is normalised, and written too.
    """

    @inline
    def finished(value, inverse, weight, bias):
        value = value * inverse
        if has_weight:
            value = value * weight
        if has_bias:
            value = value + bias
        return value

    @inline
    def norm(args, step, thread, threads):
        stride, width, heads = args[5], args[8], args[9]
        eps = number(args[10])
        whole = width // 8 * 8
        rest = width - whole
        begin, end = split(step[args[0]] * heads, thread, threads)
        for item in range(begin, end):
            start = 4 * (item // heads * stride + item % heads * width)
            x, y = args[1] + start, args[4] + start
            weight = args[6] + item % heads * args[7]
            bias = args[13] + item % heads * args[7]
            if args[2]:
                add_row(x, args[2] + start, args[3] + start, width)
                x = args[3] + start
            if is_centred:
                centre_row(x, y, width)
                x = y
            inverse = splat_f32(np.float32(1.0) / sqrt_scalar(mean_square(x, width) + eps))
            for i in range(0, whole, 8):
                value = load_f32(x + 4 * i)
                w, b = value, value
                if has_weight:
                    w = load_f32(weight + 4 * i)
                if has_bias:
                    b = load_f32(bias + 4 * i)
                store_f32(y + 4 * i, finished(value, inverse, w, b))
            if rest:
                value = load_f32_head(x + 4 * whole, rest)
                w, b = value, value
                if has_weight:
                    w = load_f32_head(weight + 4 * whole, rest)
                if has_bias:
                    b = load_f32_head(bias + 4 * whole, rest)
                store_f32_head(y + 4 * whole, finished(value, inverse, w, b), rest)
            if args[11]:
                quantize_row(y, args[11] + item * args[12], width)

    return norm


def make_rms_norm(weighted):
    norm = _make_norm(False, weighted == "weighted", False)

    def rms_norm(args, step, thread, threads):
        """args: as _make_norm says; no bias."""
        norm(args, step, thread, threads)

    return rms_norm


def make_layer_norm(kind):
    norm = _make_norm(True, "weighted" in kind, "biased" in kind)

    def layer_norm(args, step, thread, threads):
        """args: as _make_norm says."""
        norm(args, step, thread, threads)

    return layer_norm


def make_gaussian_top_k():
    def gaussian_top_k(args, step, thread, threads):
        """args: row-count word, input, output, row stride, width, deviations."""
        width = args[4]
        begin, end = split(step[args[0]], thread, threads)
        for row in range(begin, end):
            x, y = args[1] + 4 * row * args[3], args[2] + 4 * row * args[3]
            centre_row(x, y, width)
            bound = splat_f32(number(args[5]) * sqrt_scalar(mean_square(y, width)))
            for i in range(0, width, 8):
                rest = min(8, width - i)
                above = maximum(load_f32_head(y + 4 * i, rest) - bound, splat_f32(ZERO))
                store_f32_head(y + 4 * i, above, rest)

    return gaussian_top_k


KERNELS = {
    "rms_norm": make_rms_norm,
    "layer_norm": make_layer_norm,
    "gaussian_top_k": make_gaussian_top_k,
}
