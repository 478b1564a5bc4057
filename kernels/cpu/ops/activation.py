"""Activations, alone or as gates: activation(x), activation(gate) * up. A kernel for each."""

import numpy as np

from edgellm.kernels.cpu.exponential import exp
from edgellm.kernels.cpu.layout import ACTIVATION_BLOCK, ACTIVATION_BYTES
from edgellm.kernels.cpu.ops.common import inline, number, sigmoid, split, tanh
from edgellm.kernels.cpu.ops.quantize import quantize_block
from edgellm.kernels.cpu.simd import absolute, fma, maximum, minimum, splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32, store_f32

GELU_SCALE = np.float32(0.7978845608028654)  # sqrt(2 / pi)
GELU_CUBIC = np.float32(0.044715)
GELU_QUICK = np.float32(1.702)
ROOT_HALF = np.float32(0.7071067811865476)
ZERO, HALF, ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
# erf z near 1 - (sum of these times t ** i) e ** -z^2, t = 1 / (1 + ERF_STEP z), to 1.5e-7.
# Source: Abramowitz and Stegun 1964, 7.1.26.
ERF_STEP = np.float32(0.3275911)
ERF_1, ERF_2, ERF_3 = np.float32(0.254829592), np.float32(-0.284496736), np.float32(1.421413741)
ERF_4, ERF_5 = np.float32(-1.453152027), np.float32(1.061405429)
NEAR = np.float32(-0.25)  # above it e ** x - 1 - x is summed as a series


@inline
def silu(x):
    """x sigmoid(x). Source: Elfwing et al. 2017."""
    return x * sigmoid(x)


@inline
def gelu(x):
    """x times the normal distribution's integral up to x. Source: Hendrycks and Gimpel 2016.

    With erf of |x|: x (1 + erf(x / sqrt 2)) / 2 is max(x, 0) less |x| (1 - erf(|x| / sqrt 2)) / 2.
    """
    size = absolute(x)
    z = size * splat_f32(ROOT_HALF)
    t = splat_f32(ONE) / fma(z, splat_f32(ERF_STEP), splat_f32(ONE))
    p = fma(t, splat_f32(ERF_5), splat_f32(ERF_4))
    p = fma(t, p, splat_f32(ERF_3))
    p = fma(t, p, splat_f32(ERF_2))
    p = fma(t, p, splat_f32(ERF_1)) * t
    tail = p * exp(splat_f32(ZERO) - z * z)
    return maximum(x, splat_f32(ZERO)) - splat_f32(HALF) * size * tail


@inline
def gelu_tanh(x):
    """The tanh form of GELU. Source: Hendrycks and Gimpel 2016."""
    cubic = fma(x * x * splat_f32(GELU_CUBIC), x, x)
    half = x * splat_f32(HALF)
    return fma(half, tanh(cubic * splat_f32(GELU_SCALE)), half)


@inline
def gelu_quick(x):
    """x sigmoid(1.702 x)."""
    return x * sigmoid(x * splat_f32(GELU_QUICK))


@inline
def relu(x):
    """max(x, 0)."""
    return maximum(x, splat_f32(ZERO))


@inline
def gompertz(x):
    """exp(-e^x)."""
    return exp(splat_f32(ZERO) - exp(x))


@inline
def relu2(x):
    """max(x, 0) squared. Source: So et al. 2021."""
    top = maximum(x, splat_f32(ZERO))
    return top * top


UNARY = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "gelu_quick": gelu_quick,
    "relu": relu,
    "relu2": relu2,
    "sigmoid": sigmoid,
    "gompertz": gompertz,
}


@inline
def swiglu_clamped(gate, up, alpha, limit):
    """g sigmoid(alpha g) (u + 1) with both sides clamped (gpt-oss)."""
    g = minimum(gate, limit)
    u = minimum(maximum(up, splat_f32(ZERO) - limit), limit)
    return g * sigmoid(g * alpha) * (u + splat_f32(ONE))


@inline
def bilinear(gate, up, alpha, limit):
    """No activation."""
    return gate * up


GATES = {"swiglu_clamped": swiglu_clamped, "bilinear": bilinear}


def _make_gate(name):
    if name in GATES:
        return GATES[name]
    activation = UNARY[name]

    @inline
    def gate_of(gate, up, alpha, limit):
        return activation(gate) * up

    return gate_of


@inline
def exp_beyond_line(x):
    """e ** x - 1 - x for x up to 0, exact near 0: a series there, and the rest from its end."""
    near, far = maximum(x, splat_f32(NEAR)), minimum(x, splat_f32(NEAR))
    p = splat_f32(np.float32(1.0 / 720))
    p = fma(p, near, splat_f32(np.float32(1.0 / 120)))
    p = fma(p, near, splat_f32(np.float32(1.0 / 24)))
    p = fma(p, near, splat_f32(np.float32(1.0 / 6)))
    p = fma(p, near, splat_f32(HALF)) * near * near
    edge = splat_f32(NEAR)
    return p + ((exp(far) - far) - (exp(edge) - edge))


def _make_over_rows(value_at):
    """A kernel over eight columns at a time: value_at(args, byte) -> vector.

    Words from the third on: output or 0, row stride, two numbers, int8 output or 0, its row
    bytes, columns.
    """

    @inline
    def at(args, i):
        """Eight results from byte i of the matrices on, written where they are wanted."""
        value = value_at(args, i)
        if args[3]:
            store_f32(args[3] + i, value)
        return value

    @inline
    def over_rows(args, step, thread, threads):
        if args[7] == 0:
            begin, end = split(step[args[0]] * args[4] // 8, thread, threads)
            for i in range(32 * begin, 32 * end, 32):
                at(args, i)
        else:
            blocks = args[9] // ACTIVATION_BLOCK
            begin, end = split(step[args[0]] * blocks, thread, threads)
            for item in range(begin, end):
                row, block = item // blocks, item % blocks
                i = 4 * (row * args[4] + ACTIVATION_BLOCK * block)
                a, b = at(args, i), at(args, i + 32)
                c, d = at(args, i + 64), at(args, i + 96)
                quantize_block(a, b, c, d, args[7] + row * args[8] + block * ACTIVATION_BYTES)

    return over_rows


def make_gated(name):
    activation = _make_gate(name)

    @inline
    def value_at(args, i):
        alpha, limit = splat_f32(number(args[5])), splat_f32(number(args[6]))
        return activation(load_f32(args[1] + i), load_f32(args[2] + i), alpha, limit)

    over_rows = _make_over_rows(value_at)

    def gated(args, step, thread, threads):
        """args: row-count word, gate, up, output or 0, row stride, alpha, limit, int8 output or
        0, its row bytes, columns.
        """
        over_rows(args, step, thread, threads)

    return gated


def make_activate(name):
    activation = UNARY[name]

    @inline
    def value_at(args, i):
        return activation(load_f32(args[1] + i))

    over_rows = _make_over_rows(value_at)

    def activate(args, step, thread, threads):
        """args: row-count word, input, 0, output or 0, row stride, 0, 0, int8 output or 0, its
        row bytes, columns.
        """
        over_rows(args, step, thread, threads)

    return activate


def make_xielu():
    @inline
    def value_at(args, i):
        x = load_f32(args[1] + i)
        above, below = maximum(x, splat_f32(ZERO)), minimum(x, splat_f32(ZERO))
        line = x * splat_f32(number(args[2]))
        curve = fma(above * above, splat_f32(number(args[5])), line)
        return fma(exp_beyond_line(below), splat_f32(number(args[6])), curve)

    over_rows = _make_over_rows(value_at)

    def xielu(args, step, thread, threads):
        """args: row-count word, input, beta, output or 0, row stride, alpha_p, alpha_n, int8
        output or 0, its row bytes, columns.
        """
        over_rows(args, step, thread, threads)

    return xielu


KERNELS = {"gated": make_gated, "activate": make_activate, "xielu": make_xielu}
