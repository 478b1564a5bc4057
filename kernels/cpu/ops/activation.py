"""Gated activations: activation(gate) * up, one kernel per activation."""

import numpy as np

from edgellm.kernels.cpu.layout import ACTIVATION_BLOCK, ACTIVATION_BYTES
from edgellm.kernels.cpu.ops.common import inline, number, sigmoid, split, tanh
from edgellm.kernels.cpu.ops.quantize import quantize_block
from edgellm.kernels.cpu.simd import fma, load_f32, maximum, minimum, splat_f32, store_f32

GELU_SCALE = np.float32(0.7978845608028654)  # sqrt(2 / pi)
GELU_CUBIC = np.float32(0.044715)


@inline
def silu(gate, up, alpha, limit):
    """x sigmoid(x). Source: Elfwing et al. 2017."""
    return gate * sigmoid(gate) * up


@inline
def gelu_tanh(gate, up, alpha, limit):
    """The tanh form of GELU. Source: Hendrycks and Gimpel 2016."""
    cubic = fma(gate * gate * splat_f32(GELU_CUBIC), gate, gate)
    half = gate * splat_f32(np.float32(0.5))
    return fma(half, tanh(cubic * splat_f32(GELU_SCALE)), half) * up


@inline
def swiglu_clamped(gate, up, alpha, limit):
    """g sigmoid(alpha g) (u + 1) with both sides clamped (gpt-oss)."""
    g = minimum(gate, limit)
    u = minimum(maximum(up, splat_f32(np.float32(0.0)) - limit), limit)
    return g * sigmoid(g * alpha) * (u + splat_f32(np.float32(1.0)))


@inline
def sigmoid_gated(gate, up, alpha, limit):
    """The gated linear unit. Source: Dauphin et al. 2016."""
    return sigmoid(gate) * up


@inline
def bilinear(gate, up, alpha, limit):
    """No activation."""
    return gate * up


ACTIVATIONS = {
    "silu": silu,
    "gelu_tanh": gelu_tanh,
    "swiglu_clamped": swiglu_clamped,
    "sigmoid": sigmoid_gated,
    "bilinear": bilinear,
}


def make_gated(name):
    activation = ACTIVATIONS[name]

    @inline
    def at(args, i, alpha, limit):
        """Eight results from byte i of the matrices on, written where they are wanted."""
        value = activation(load_f32(args[1] + i), load_f32(args[2] + i), alpha, limit)
        if args[3]:
            store_f32(args[3] + i, value)
        return value

    def gated(args, step, thread, threads):
        """args: row-count word, gate, up, output or 0, row stride, alpha, limit, int8 output or
        0, its row bytes, columns.
        """
        alpha, limit = splat_f32(number(args[5])), splat_f32(number(args[6]))
        if args[7] == 0:
            begin, end = split(step[args[0]] * args[4] // 8, thread, threads)
            for i in range(32 * begin, 32 * end, 32):
                at(args, i, alpha, limit)
        else:
            blocks = args[9] // ACTIVATION_BLOCK
            begin, end = split(step[args[0]] * blocks, thread, threads)
            for item in range(begin, end):
                row, block = item // blocks, item % blocks
                i = 4 * (row * args[4] + ACTIVATION_BLOCK * block)
                a, b = at(args, i, alpha, limit), at(args, i + 32, alpha, limit)
                c, d = at(args, i + 64, alpha, limit), at(args, i + 96, alpha, limit)
                quantize_block(a, b, c, d, args[7] + row * args[8] + block * ACTIVATION_BYTES)

    return gated


KERNELS = {"gated": make_gated}
