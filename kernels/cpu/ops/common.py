"""Small compiled functions that several kernels share: splitting work, gates, typed reads."""

import numpy as np
from numba import njit

from edgellm.kernels.cpu.compile import OPTIONS
from edgellm.kernels.cpu.exponential import exp
from edgellm.kernels.cpu.simd import (
    absolute,
    bits_to_f32,
    fma,
    maximum,
    pointer,
    splat_f32,
)
from edgellm.kernels.cpu.vector_memory import store_f32

inline = njit(**OPTIONS)


@inline
def split(total, thread, threads):
    """The part [begin, end) of `total` items that a thread does."""
    return total * thread // threads, total * (thread + 1) // threads


@inline
def number(word):
    """A float32 attribute stored in an args word."""
    return bits_to_f32(word)


@inline
def f32(address, index):
    """Element of a float32 array."""
    return pointer(address, np.float32)[index]


@inline
def i32(address, index):
    """Element of an int32 array."""
    return np.int64(pointer(address, np.int32)[index])


@inline
def clear(address, size):
    """Makes `size` bytes zero, a multiple of 32."""
    for i in range(0, size, 32):
        store_f32(address + i, splat_f32(np.float32(0.0)))


@inline
def sigmoid(x):
    """1 / (1 + e ** -x)."""
    one = splat_f32(np.float32(1.0))
    return one / (one + exp(splat_f32(np.float32(0.0)) - x))


@inline
def tanh(x):
    """1 - 2 / (e ** 2x + 1)."""
    one = splat_f32(np.float32(1.0))
    return one - (one + one) / (exp(x + x) + one)


@inline
def softplus(x):
    """log(1 + e ** x) = max(x, 0) + log1p(e ** -|x|).

    log1p(u) is 2 artanh(s) with s = u / (2 + u), by its series: s ** 2 is at most 1 / 9.
    """
    zero = splat_f32(np.float32(0.0))
    u = exp(zero - absolute(x))
    s = u / (splat_f32(np.float32(2.0)) + u)
    square = s * s
    p = splat_f32(np.float32(1.0 / 15))
    p = fma(p, square, splat_f32(np.float32(1.0 / 13)))
    p = fma(p, square, splat_f32(np.float32(1.0 / 11)))
    p = fma(p, square, splat_f32(np.float32(1.0 / 9)))
    p = fma(p, square, splat_f32(np.float32(1.0 / 7)))
    p = fma(p, square, splat_f32(np.float32(1.0 / 5)))
    p = fma(p, square, splat_f32(np.float32(1.0 / 3)))
    p = fma(p, square, splat_f32(np.float32(1.0)))
    return fma(p, s + s, maximum(x, zero))
