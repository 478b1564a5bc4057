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
    DIRECT_TOKENS,
    END_OF_SCRATCH,
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
from edgellm.kernels.cpu.ops.shares import next_item
from edgellm.kernels.cpu.simd import pointer
from edgellm.kernels.formats import by_id

# Of the expert at hand: int64 per (token, rank), then the addresses of their activation rows.
PAIRS_AT = END_OF_SCRATCH
SOURCES_AT = PAIRS_AT + 8 * TOKEN_BLOCK


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
    product = block_product(fmt, is_listed=True)
    by_panels, has_strips = _make_by_panels(fmt, product), bool(product.wide)
    by_narrow = _make_by_strips(fmt, NARROW, product.narrow)
    by_wide = _make_by_strips(fmt, LANES, product.wide)

    def moe_matmul(args, step, thread, threads):
        """args: x, x row bytes, x columns, y, y stride, weight, weight row bytes, rows per expert,
        columns, experts, bias, scale, routing or 0, routing stride, top_k, bytes from one expert
        to the next. Without routing rank r goes to expert r. An item is a part of the rows of an
        expert that is used, as many parts as threads.
        """
        top_k, tokens = args[14], step[NUM_TOKENS]
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        pairs, sources = pointer(scratch + PAIRS_AT, np.int64), scratch + SOURCES_AT
        item, own_item = 0, thread
        for expert in range(args[9]):
            seen = 0
            while seen < tokens * top_k:
                count, seen = gather_pairs(args[12], args[13], tokens, top_k, expert, seen, pairs)
                if count == 0:
                    continue
                if own_item < item + threads:
                    list_sources(args, pairs, count, pointer(sources, np.int64))
                while own_item < item + threads:
                    part = own_item - item
                    if has_strips and count <= NARROW_TOKENS:
                        by_narrow(args, expert, pairs, sources, count, scratch, part, threads)
                    elif has_strips and count <= DIRECT_TOKENS:
                        by_wide(args, expert, pairs, sources, count, scratch, part, threads)
                    else:
                        by_panels(args, expert, pairs, sources, count, scratch, part, threads)
                    own_item = next_item(args, own_item, threads)
                item += threads

    return moe_matmul


@inline
def list_sources(args, pairs, count, sources):
    """Where the int8 row of each (token, rank) lies."""
    part = args[8] // ACTIVATION_BLOCK * ACTIVATION_BYTES if args[2] != args[8] else 0
    for i in range(count):
        sources[i] = args[0] + pairs[i] // args[14] * args[1] + pairs[i] % args[14] * part


@inline
def write_experts(args, expert, pairs, count, first, lanes, sums, sums_bytes):
    """The sums of a strip of rows from `first` on, to the part of each (token, rank)."""
    y, rows = pointer(args[3], np.float32), args[7]
    for t in range(count):
        values = pointer(sums + t * sums_bytes, np.float32)
        start = pairs[t] // args[14] * args[4] + pairs[t] % args[14] * rows
        for r in range(min(lanes, rows - first)):
            value = finish_expert(values[r], args[10], args[11], expert, rows, first + r)
            y[start + first + r] = value


def _make_by_strips(fmt, lanes, pieces):
    """Few tokens: every strip is read once as it lies in the file."""
    block_size, run = fmt.block_size, in_pieces(pieces, lanes, is_listed=True)

    @inline
    def by_strips(args, expert, pairs, sources, count, scratch, part, parts):
        rows, blocks, sums = args[7], args[8] // block_size, scratch + SUMS_AT
        weight = args[5] + expert * args[15]
        begin, end = split((rows + lanes - 1) // lanes, part, parts)
        last = weight + end * lanes * args[6]
        for strip in range(begin, end):
            first = lanes * strip
            near, far = lines_ahead(weight + (first + lanes) * args[6], last, last)
            run(weight, args[6], first, rows - 1, sources, 0, sums, blocks, near, far, 0, count)
            write_experts(args, expert, pairs, count, first, lanes, sums, 4 * lanes)

    return by_strips


def _make_by_panels(fmt, product):
    """Many tokens: a panel is unpacked once and used for all of them."""
    fill, tile_one, tile_many = product.fill, product.tile_one, product.tile_many
    many, block_size, type_size = product.many, fmt.block_size, fmt.type_size

    @inline
    def by_panels(args, expert, pairs, sources, count, scratch, part, parts):
        rows, columns, sums = args[7], args[8], scratch + SUMS_AT
        begin, end = split((rows + LANES - 1) // LANES, part, parts)
        for strip in range(begin, end, PANEL_STRIPS):
            clear(sums, count)
            used = min(PANEL_STRIPS, end - strip)
            for k0 in range(0, columns, PANEL_COLUMNS):
                width = min(PANEL_COLUMNS, columns - k0)
                weight = args[5] + expert * args[15] + k0 // block_size * type_size
                for which in range(used):
                    first = LANES * (strip + which)
                    fill(scratch, weight, args[6], first, rows - 1, which, width // block_size)
                panel, records = scratch + PANEL_AT, width // ACTIVATION_BLOCK
                skipped = k0 // ACTIVATION_BLOCK * ACTIVATION_BYTES
                t = 0
                while t + many <= count:
                    at = sums + t * SUMS_BYTES
                    tile_many(panel, sources + 8 * t, skipped, at, SUMS_BYTES, records)
                    t += many
                while t < count:
                    at = sums + t * SUMS_BYTES
                    tile_one(panel, sources + 8 * t, skipped, at, SUMS_BYTES, records)
                    t += 1
            for which in range(used):
                first, at = LANES * (strip + which), sums + which * VECTOR_BYTES
                write_experts(args, expert, pairs, count, first, LANES, at, SUMS_BYTES)

    return by_panels


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
