"""Tiles of attention brought together in order, and the last step of a row."""

import numpy as np

from edgellm.kernels.cpu.exponential import exp
from edgellm.kernels.cpu.ops.common import f32, inline
from edgellm.kernels.cpu.simd import first_lane, splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32_head, store_f32_head

ZERO = np.float32(0.0)
ONE = np.float32(1.0)


@inline
def merge_row(out, width, maxima, sums, row, part, largest, total, is_first):
    """Adds one tile's result to a row's: out (width floats), maxima[row], sums[row]."""
    old, new = ZERO, ONE
    if is_first:
        maxima[row] = largest
        sums[row] = total
    else:
        both = max(maxima[row], largest)
        old = first_lane(exp(splat_f32(maxima[row] - both)))
        new = first_lane(exp(splat_f32(largest - both)))
        maxima[row] = both
        sums[row] = sums[row] * old + total * new
    before, after = splat_f32(old), splat_f32(new)
    for i in range(0, width, 8):
        rest = min(8, width - i)
        value = load_f32_head(part + 4 * i, rest)
        if not is_first:
            value = load_f32_head(out + 4 * i, rest) * before + value * after
        store_f32_head(out + 4 * i, value, rest)


@inline
def finish_row(out, width, largest, total, sinks, head):
    """Divides by the sum, to which a sink adds one more key of value zero."""
    factor = ONE
    if sinks:
        sink = f32(sinks, head)
        both = max(largest, sink)
        factor = first_lane(exp(splat_f32(largest - both)))
        total = total * factor + first_lane(exp(splat_f32(sink - both)))
    scale = splat_f32(factor / total)
    for i in range(0, width, 8):
        rest = min(8, width - i)
        store_f32_head(out + 4 * i, load_f32_head(out + 4 * i, rest) * scale, rest)
