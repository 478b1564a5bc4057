"""Products of experts and of heads, matrix by matrix, so that a batch reads each of them once."""

import numpy as np

from edgellm.kernels.cpu.emit import NARROW
from edgellm.kernels.cpu.layout import (
    ACTIVATION_BLOCK,
    ACTIVATION_BYTES,
    NUM_TOKENS,
    SCRATCH,
    SCRATCH_BYTES,
)
from edgellm.kernels.cpu.ops.common import f32, inline, split
from edgellm.kernels.cpu.ops.float_matmul import make_dots
from edgellm.kernels.cpu.ops.panel import (
    END_OF_SCRATCH,
    LANES,
    NARROW_TOKENS,
    PANEL_AT,
    PANEL_COLUMNS,
    SUMS_AT,
    SUMS_BYTES,
    TOKEN_BLOCK,
    block_product,
    clear,
)
from edgellm.kernels.cpu.simd import pointer
from edgellm.kernels.formats import by_id

PAIRS_AT = END_OF_SCRATCH  # int64 per (token, rank) of the expert at hand


@inline
def gather_pairs(routing, stride, tokens, top_k, expert, start, pairs):
    """Lists up to TOKEN_BLOCK items token * top_k + rank routed to `expert`, from item `start` on.

    Without routing rank r goes to expert r. Returns how many, and the item to go on from.
    """
    found, item = 0, start
    if routing == 0:
        found = min(TOKEN_BLOCK, tokens - start // top_k)
        for i in range(found):
            pairs[i] = start + i * top_k + expert
        return found, start + found * top_k
    while item < tokens * top_k and found < TOKEN_BLOCK:
        row = routing + 4 * (item // top_k * stride)
        if np.int64(f32(row, item % top_k)) == expert:
            pairs[found] = item
            found += 1
        item += 1
    return found, item


@inline
def finish_expert(value, bias, scale, expert, rows, row):
    """value * scale[expert] + bias[expert, row]; a null address is none."""
    if scale:
        value = value * f32(scale, expert)
    if bias:
        value = value + f32(bias, expert * rows + row)
    return value


def make_moe_matmul(type_id):
    fmt = by_id(int(type_id))
    block_size, type_size = fmt.block_size, fmt.type_size
    product = block_product(fmt)
    fill, tile_one, direct = product.fill, product.tile_one, product.narrow.get(1, _no_direct)
    direct_tokens = NARROW_TOKENS if product.narrow else 0

    @inline
    def source(args, pair):
        """Where the int8 row of a (token, rank) lies."""
        token, rank = pair // args[14], pair % args[14]
        part = args[8] // ACTIVATION_BLOCK * ACTIVATION_BYTES if args[2] != args[8] else 0
        return args[0] + token * args[1] + rank * part

    @inline
    def write(args, expert, pair, first, lanes, sums):
        """The sums of a strip of rows from `first` on, to the part of a (token, rank)."""
        y, values, rows = pointer(args[3], np.float32), pointer(sums, np.float32), args[7]
        start = pair // args[14] * args[4] + pair % args[14] * rows
        for r in range(min(lanes, rows - first)):
            value = finish_expert(values[r], args[10], args[11], expert, rows, first + r)
            y[start + first + r] = value

    @inline
    def by_strips(args, expert, weight, pairs, count, sums, thread, threads):
        """Few tokens: every strip is read once as it lies in the file."""
        rows, blocks = args[7], args[8] // block_size
        begin, end = split((rows + NARROW - 1) // NARROW, thread, threads)
        for strip in range(begin, end):
            first = NARROW * strip
            for t in range(count):
                x = source(args, pairs[t])
                direct(weight, args[6], first, rows - 1, x, args[1], sums, blocks)
                write(args, expert, pairs[t], first, NARROW, sums)

    @inline
    def by_panels(args, expert, weight, pairs, count, scratch, thread, threads):
        """Many tokens: a panel is unpacked once and used for all of them."""
        rows, columns, sums = args[7], args[8], scratch + SUMS_AT
        begin, end = split((rows + LANES - 1) // LANES, thread, threads)
        for strip in range(begin, end):
            first = LANES * strip
            clear(sums, count)
            for k0 in range(0, columns, PANEL_COLUMNS):
                width = min(PANEL_COLUMNS, columns - k0)
                blocks = weight + k0 // block_size * type_size
                fill(scratch, blocks, args[6], first, rows - 1, 0, width // block_size)
                at = k0 // ACTIVATION_BLOCK * ACTIVATION_BYTES
                for t in range(count):
                    tile_one(
                        scratch + PANEL_AT, source(args, pairs[t]) + at, args[1],
                        sums + t * SUMS_BYTES, SUMS_BYTES, width // ACTIVATION_BLOCK,
                    )  # fmt: skip
            for t in range(count):
                write(args, expert, pairs[t], first, LANES, sums + t * SUMS_BYTES)

    def moe_matmul(args, step, thread, threads):
        """args: x, x row bytes, x columns, y, y stride, weight, weight row bytes, rows per expert,
        columns, experts, bias, scale, routing or 0, routing stride, top_k, bytes from one expert
        to the next. Without routing rank r goes to expert r.
        """
        top_k, tokens = args[14], step[NUM_TOKENS]
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        pairs = pointer(scratch + PAIRS_AT, np.int64)
        for expert in range(args[9]):
            weight = args[5] + expert * args[15]
            item = 0
            while item < tokens * top_k:
                count, item = gather_pairs(args[12], args[13], tokens, top_k, expert, item, pairs)
                if count > direct_tokens:
                    by_panels(args, expert, weight, pairs, count, scratch, thread, threads)
                elif count > 0:
                    sums = scratch + SUMS_AT
                    by_strips(args, expert, weight, pairs, count, sums, thread, threads)

    return moe_matmul


@inline
def _no_direct(weight, row_bytes, first, last, x, x_bytes, sums, blocks):
    """For formats without a reader of strips: never called."""


def make_moe_float_matmul(type_id):
    dots = make_dots(by_id(int(type_id)))

    def moe_float_matmul(args, step, thread, threads):
        """args: as moe_matmul; x is float32 rows."""
        x_bytes, x_columns, stride, rows, columns = args[1], args[2], args[4], args[7], args[8]
        top_k, tokens = args[14], step[NUM_TOKENS]
        part = columns if x_columns != columns else 0
        y = pointer(args[3], np.float32)
        begin, end = split(rows, thread, threads)
        for expert in range(args[9]):
            for item in range(tokens * top_k):
                token, rank = item // top_k, item % top_k
                chosen = rank
                if args[12]:
                    chosen = np.int64(f32(args[12] + 4 * token * args[13], rank))
                if chosen != expert:
                    continue
                x = args[0] + token * x_bytes + 4 * rank * part
                for row in range(begin, end):
                    w = args[5] + expert * args[15] + row * args[6]
                    value, _, _, _ = dots(x, x, x, x, w, columns)
                    value = finish_expert(value, args[10], args[11], expert, rows, row)
                    y[token * stride + rank * rows + row] = value

    return moe_float_matmul


KERNELS = {"moe_matmul": make_moe_matmul, "moe_float_matmul": make_moe_float_matmul}
