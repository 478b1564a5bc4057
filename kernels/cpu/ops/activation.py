"""Gated activations: activation(gate) * up, one kernel per activation."""

import numpy as np

from edgellm.kernels.cpu.ops.common import inline, number, sigmoid, split, tanh
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


ACTIVATIONS = {"silu": silu, "gelu_tanh": gelu_tanh, "swiglu_clamped": swiglu_clamped}


def make_gated(name):
    activation = ACTIVATIONS[name]

    def gated(args, step, thread, threads):
        """args: row-count word, gate, up, output, row stride, alpha, limit."""
        begin, end = split(step[args[0]] * args[4] // 8, thread, threads)
        alpha, limit = splat_f32(number(args[5])), splat_f32(number(args[6]))
        for i in range(32 * begin, 32 * end, 32):
            value = activation(load_f32(args[1] + i), load_f32(args[2] + i), alpha, limit)
            store_f32(args[3] + i, value)

    return gated


KERNELS = {"gated": make_gated}
