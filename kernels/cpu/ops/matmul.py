"""Products with block-format weights and int8 activations, one kernel per format."""

import numpy as np

from edgellm.kernels.cpu.emit import NARROW
from edgellm.kernels.cpu.layout import (
    ACTIVATION_BLOCK,
    ACTIVATION_BYTES,
    SCRATCH,
    SCRATCH_BYTES,
)
from edgellm.kernels.cpu.ops.common import f32, inline
from edgellm.kernels.cpu.ops.panel import (
    DIRECT_TOKENS,
    LANES,
    NARROW_TOKENS,
    PANEL_AT,
    PANEL_COLUMNS,
    PANEL_STRIPS,
    SUMS_AT,
    SUMS_BYTES,
    TOKEN_BLOCK,
    VECTOR_BYTES,
    block_product,
    clear,
    in_pieces,
    lines_ahead,
)
from edgellm.kernels.cpu.ops.shares import in_shares, next_reading
from edgellm.kernels.cpu.simd import splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32, store_f32
from edgellm.kernels.formats import by_id

ONE = np.float32(1.0)


@inline
def write_strip(sums, lanes, count, between, y, stride, bias, scale):
    """The sums of one strip to `count` rows of y, times scale[0] plus bias; 0 is none.

    All lanes are written: rows of y are padded, and a weight's last strip ends in the padding.
    """
    factor = splat_f32(f32(scale, 0) if scale else ONE)
    for t in range(count):
        for i in range(0, 4 * lanes, 32):
            value = load_f32(sums + t * between + i)
            if scale:
                value = value * factor
            if bias:
                value = value + load_f32(bias + i)
            store_f32(y + 4 * t * stride + i, value)


def _make_by_strips(fmt, lanes, pieces):
    """Few tokens: every strip is read once as it lies in the file."""
    block_size, run = fmt.block_size, in_pieces(pieces, lanes, is_listed=False)

    @inline
    def some_strips(args, step, thread, threads, begin, end):
        """All tokens times strips [begin, end)."""
        tokens, rows, blocks = step[args[0]], args[7], args[8] // block_size
        sums = step[SCRATCH] + thread * SCRATCH_BYTES + SUMS_AT
        last = args[5] + min(lanes * end, rows) * args[6]
        following = next_reading(args, rows * args[6], thread, threads, last)
        for strip in range(begin, end):
            first = lanes * strip
            near, far = lines_ahead(args[5] + (first + lanes) * args[6], last, following)
            run(
                args[5], args[6], first, rows - 1, args[1], args[2], sums, blocks, near, far, 0,
                tokens,
            )  # fmt: skip
            bias = args[9] + 4 * first if args[9] else 0
            y = args[3] + 4 * first
            write_strip(sums, lanes, tokens, 4 * lanes, y, args[4], bias, args[10])

    share = in_shares(some_strips)

    @inline
    def by_strips(args, step, thread, threads):
        strips = (args[7] + lanes - 1) // lanes
        share(args, step, thread, threads, strips, args[7] * args[6])

    return by_strips


def _make_by_panels(fmt, product):
    """Many tokens: a panel is unpacked once and used for a block of them."""
    fill, tile_one, tile_many = product.fill, product.tile_one, product.tile_many
    many, block_size, type_size = product.many, fmt.block_size, fmt.type_size

    @inline
    def some_panels(args, step, thread, threads, first_panel, end_panel):
        """All tokens times panels [first_panel, end_panel)."""
        tokens, x_bytes, rows, columns = step[args[0]], args[2], args[7], args[8]
        begin = first_panel * PANEL_STRIPS
        end = min(end_panel * PANEL_STRIPS, (rows + LANES - 1) // LANES)
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
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
                    write_strip(at, LANES, count, SUMS_BYTES, out, args[4], bias, args[10])

    share = in_shares(some_panels)

    def by_panels(args, step, thread, threads):
        strips, size = (args[7] + LANES - 1) // LANES, args[7] * args[6] * step[args[0]]
        panels = (strips + PANEL_STRIPS - 1) // PANEL_STRIPS
        share(args, step, thread, threads, panels, size)

    return by_panels


def make_matmul(type_id):
    """Each thread does ranges of strips for all tokens.

    Args: row-count word, x, x row bytes, y, y stride, weight, weight row bytes, rows, columns,
    bias, scale.
    """
    fmt = by_id(int(type_id))
    product = block_product(fmt)
    by_panels = _make_by_panels(fmt, product)

    if not product.wide:
        return by_panels
    by_narrow = _make_by_strips(fmt, NARROW, product.narrow)
    by_wide = _make_by_strips(fmt, LANES, product.wide)
    many = inline(by_panels)

    def matmul(args, step, thread, threads):
        if step[args[0]] <= NARROW_TOKENS:
            by_narrow(args, step, thread, threads)
        elif step[args[0]] <= DIRECT_TOKENS:
            by_wide(args, step, thread, threads)
        else:
            many(args, step, thread, threads)

    return matmul


KERNELS = {"matmul": make_matmul}
