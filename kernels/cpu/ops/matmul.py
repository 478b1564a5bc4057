"""Products with block-format weights and int8 activations, one kernel per format."""

import numpy as np

from edgellm.kernels.cpu.emit import LANES, VECTOR_BYTES
from edgellm.kernels.cpu.layout import (
    ACTIVATION_BLOCK,
    ACTIVATION_BYTES,
    SCRATCH,
    SCRATCH_BYTES,
)
from edgellm.kernels.cpu.ops.common import f32, inline, split
from edgellm.kernels.cpu.ops.panel import (
    DIRECT_TOKENS,
    PANEL_AT,
    PANEL_COLUMNS,
    PANEL_STRIPS,
    SUMS_AT,
    SUMS_BYTES,
    TOKEN_BLOCK,
    block_product,
    clear,
)
from edgellm.kernels.cpu.simd import load_f32, splat_f32, store_f32
from edgellm.kernels.formats import by_id

ONE = np.float32(1.0)


@inline
def write_strip(sums, count, between, y, stride, bias, scale):
    """The sums of one strip to `count` rows of y, times scale[0] plus bias; 0 is none.

    All 8 lanes are written: rows of y are padded, and a weight's last strip ends in the padding.
    """
    factor = splat_f32(f32(scale, 0) if scale else ONE)
    for t in range(count):
        value = load_f32(sums + t * between)
        if scale:
            value = value * factor
        if bias:
            value = value + load_f32(bias)
        store_f32(y + 4 * t * stride, value)


def _make_by_strips(fmt, product):
    """Few tokens: every strip is read once as it lies in the file."""
    one, two, four = (product.direct[n] for n in (1, 2, 4))
    block_size = fmt.block_size

    @inline
    def by_strips(args, scratch, tokens, begin, end):
        x, x_bytes, rows, blocks = args[1], args[2], args[7], args[8] // block_size
        sums = scratch + SUMS_AT
        for strip in range(begin, end):
            first = LANES * strip
            t = 0
            while t < tokens:
                here, at = x + t * x_bytes, sums + t * VECTOR_BYTES
                if t + 4 <= tokens:
                    four(args[5], args[6], first, rows - 1, here, x_bytes, at, blocks)
                    t += 4
                elif t + 2 <= tokens:
                    two(args[5], args[6], first, rows - 1, here, x_bytes, at, blocks)
                    t += 2
                else:
                    one(args[5], args[6], first, rows - 1, here, x_bytes, at, blocks)
                    t += 1
            bias = args[9] + 4 * first if args[9] else 0
            out = args[3] + 4 * first
            write_strip(sums, tokens, VECTOR_BYTES, out, args[4], bias, args[10])

    return by_strips


def _make_by_panels(fmt, product):
    """Many tokens: a panel is unpacked once and used for a block of them."""
    fill, tile_one, tile_many = product.fill, product.tile_one, product.tile_many
    many, block_size, type_size = product.many, fmt.block_size, fmt.type_size

    @inline
    def by_panels(args, scratch, tokens, begin, end):
        x_bytes, rows, columns = args[2], args[7], args[8]
        sums = scratch + SUMS_AT
        for t0 in range(0, tokens, TOKEN_BLOCK):
            count = min(TOKEN_BLOCK, tokens - t0)
            for strip in range(begin, end, PANEL_STRIPS):
                clear(sums, count)
                used = min(PANEL_STRIPS, end - strip)
                for k0 in range(0, columns, PANEL_COLUMNS):
                    width = min(PANEL_COLUMNS, columns - k0)
                    weight = args[5] + k0 // block_size * type_size
                    for which in range(used):
                        first = LANES * (strip + which)
                        blocks = width // block_size
                        fill(scratch, weight, args[6], first, rows - 1, which, blocks)
                    records = width // ACTIVATION_BLOCK
                    x = args[1] + t0 * x_bytes + k0 // ACTIVATION_BLOCK * ACTIVATION_BYTES
                    t = 0
                    while t + many <= count:
                        tile_many(
                            scratch + PANEL_AT, x + t * x_bytes, x_bytes,
                            sums + t * SUMS_BYTES, SUMS_BYTES, records,
                        )  # fmt: skip
                        t += many
                    while t < count:
                        tile_one(
                            scratch + PANEL_AT, x + t * x_bytes, x_bytes,
                            sums + t * SUMS_BYTES, SUMS_BYTES, records,
                        )  # fmt: skip
                        t += 1
                for which in range(used):
                    first = LANES * (strip + which)
                    bias = args[9] + 4 * first if args[9] else 0
                    out = args[3] + 4 * (t0 * args[4] + first)
                    at = sums + which * VECTOR_BYTES
                    write_strip(at, count, SUMS_BYTES, out, args[4], bias, args[10])

    return by_panels


def make_matmul(type_id):
    """Each thread does a contiguous range of strips for all tokens."""
    fmt = by_id(int(type_id))
    product = block_product(fmt)
    by_panels = _make_by_panels(fmt, product)

    def matmul(args, step, thread, threads):
        """args: row-count word, x, x row bytes, y, y stride, weight, weight row bytes, rows,
        columns, bias, scale.
        """
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        begin, end = split((args[7] + LANES - 1) // LANES, thread, threads)
        by_panels(args, scratch, step[args[0]], begin, end)

    if not product.direct:
        return matmul
    by_strips = _make_by_strips(fmt, product)

    def matmul_by_size(args, step, thread, threads):
        """args: as matmul."""
        tokens = step[args[0]]
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        begin, end = split((args[7] + LANES - 1) // LANES, thread, threads)
        if tokens <= DIRECT_TOKENS:
            by_strips(args, scratch, tokens, begin, end)
        else:
            by_panels(args, scratch, tokens, begin, end)

    return matmul_by_size


KERNELS = {"matmul": make_matmul}
