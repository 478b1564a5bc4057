"""One tile of keys for the query rows of an item: scores, their softmax, and the weighted values.

All numbers of an item lie in the thread's scratch memory, at the places below; attention.py says
what an item is and brings tiles together. Keys: (dimension, slot) inside a block; values: (slot,
dimension), or the first dimensions of the keys (latent attention).
"""

import numpy as np

from edgellm.kernels.cpu.atomics import ask_for
from edgellm.kernels.cpu.emit import NARROW, wide_lanes
from edgellm.kernels.cpu.exponential import exp, make_exponentials
from edgellm.kernels.cpu.isa import host_isa
from edgellm.kernels.cpu.layout import LINE, MAX_HEAD_DIM, SCRATCH_BYTES
from edgellm.kernels.cpu.ops.cache import LAYOUTS
from edgellm.kernels.cpu.ops.common import f32, i32, inline, tanh
from edgellm.kernels.cpu.rows_product import KEY_ROWS, PER_LOOP, VALUE_ROWS, make_rows_product
from edgellm.kernels.cpu.simd import fma, max_lanes, maximum, pointer, splat_f32, sum_lanes
from edgellm.kernels.cpu.vector_memory import (
    load_f32,
    load_f32_head,
    store_f32,
    store_f32_head,
    transpose_f32,
)
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.program import ATTENTION_TILE

MAX_ROWS = 64
WIDE = wide_lanes()
TILE_BLOCKS = ATTENTION_TILE // BLOCK_SIZE
COLUMNS = BLOCK_SIZE  # of one inner loop: the keys of a block, or as many numbers of a value
# Rows of one inner loop, at most: half of the registers hold its sums.
MANY = host_isa().registers_of(WIDE) // 2 // PER_LOOP
DIRECT_ROWS = 2 * MANY  # up to here blocks are read as they are, above they are widened once
BLOCKS_AHEAD = 2  # how many blocks are read between asking for one and reading it
MINUS_INFINITY = np.float32(-np.inf)
ZERO = np.float32(0.0)
exponentials, wide_exponentials = make_exponentials(NARROW), make_exponentials(WIDE)

# Scratch of one thread, by query row: where its keys of this tile begin and end, addresses of its
# query, scores and output (int64), this tile's and the running max and sum, its slope and how far
# its first key of this tile is ahead (float32); then the scores of a tile, one widened block, the
# same turned (keys that are values too), outputs.
LOWS_AT = 0
HIGHS_AT = LOWS_AT + 8 * MAX_ROWS
QUERY_ROWS_AT = HIGHS_AT + 8 * MAX_ROWS
SCORE_ROWS_AT = QUERY_ROWS_AT + 8 * MAX_ROWS
OUTPUT_ROWS_AT = SCORE_ROWS_AT + 8 * MAX_ROWS
MAXIMA_AT = OUTPUT_ROWS_AT + 8 * MAX_ROWS
SUMS_AT = MAXIMA_AT + 4 * MAX_ROWS
RUN_MAXIMA_AT = SUMS_AT + 4 * MAX_ROWS
RUN_SUMS_AT = RUN_MAXIMA_AT + 4 * MAX_ROWS
SLOPES_AT = RUN_SUMS_AT + 4 * MAX_ROWS
AHEAD_AT = SLOPES_AT + 4 * MAX_ROWS
SCORES_AT = AHEAD_AT + 4 * MAX_ROWS
BLOCK_AT = SCORES_AT + 4 * ATTENTION_TILE * MAX_ROWS
TURNED_AT = BLOCK_AT + 4 * BLOCK_SIZE * MAX_HEAD_DIM
OUTPUTS_AT = TURNED_AT + 4 * BLOCK_SIZE * MAX_HEAD_DIM
END_OF_SCRATCH = OUTPUTS_AT + 4 * MAX_ROWS * MAX_HEAD_DIM
assert END_OF_SCRATCH <= SCRATCH_BYTES


@inline
def weights_of(scores, count, scale, cap, ramp, slope, ahead):
    """Scores to exp(scale * score - max) in place, soft-capped first; returns (max, sum).

    With a ramp, the floats 0 to 7, slope times |ahead + which key| is taken off each score.
    """
    whole = count // 8 * 8
    rest = count - whole
    factor, top = splat_f32(scale), splat_f32(MINUS_INFINITY)
    for i in range(0, 4 * (whole + 8 if rest else whole), 32):
        s = load_f32(scores + i) * factor
        if cap > ZERO:
            s = splat_f32(cap) * tanh(s / splat_f32(cap))
        if ramp:
            place = load_f32(ramp) + splat_f32(ahead + np.float32(i // 4))
            away = maximum(place, splat_f32(ZERO) - place)
            s = fma(splat_f32(ZERO) - away, splat_f32(slope), s)
        store_f32(scores + i, s)
        if i < 4 * whole:
            top = maximum(s, top)
    largest = max_lanes(top)
    for i in range(whole, count):
        largest = max(largest, f32(scores, i))
    wide = count // WIDE * WIDE
    total = wide_exponentials(scores, wide, largest, splat_f32(ZERO))
    total = exponentials(scores + 4 * wide, whole - wide, largest, total)
    if rest:
        p = exp(load_f32_head(scores + 4 * whole, rest) - splat_f32(largest))
        store_f32_head(scores + 4 * whole, p, rest)
        total = total + load_f32_head(scores + 4 * whole, rest)
    return largest, sum_lanes(total)


@inline
def turn(source, target, width, padded):
    """A widened block of keys, (width, slot), to (slot, dimension) rows of `padded`."""
    for i in range(0, width, 8):
        for slot in range(0, BLOCK_SIZE, 8):
            place, out = source + 4 * (i * BLOCK_SIZE + slot), target + 4 * (slot * padded + i)
            transpose_f32(place, 4 * BLOCK_SIZE, out, 4 * padded)


@inline
def ask_for_block(address, size):
    """Has a block brought near while others are worked on: the cache lies in no order."""
    for line in range(0, size, LINE):
        ask_for(address + line)


def make_tile(key_type, value_type):
    """tile(...): max, sum and output of one tile of keys for the rows of an item, in scratch.

    value_type "keys": the values are the first value_dim numbers of the keys.
    """
    from_keys = value_type == "keys"
    keys_lie, values_lie = LAYOUTS[key_type], LAYOUTS[key_type if from_keys else value_type]
    widen_keys, widen_values = keys_lie.widen_keys, values_lie.widen_values
    k_per_32, v_per_32 = keys_lie.bytes_per_32, values_lie.bytes_per_32
    k_direct, v_direct = key_type in KEY_ROWS, value_type in VALUE_ROWS
    wide_product = make_rows_product("f32", KEY_ROWS["f32"], MANY, COLUMNS, WIDE)
    wide_narrow = make_rows_product("f32", KEY_ROWS["f32"], 1, NARROW, NARROW)
    k_product = v_product = wide_product
    if k_direct:
        k_product = make_rows_product(f"{key_type}_keys", KEY_ROWS[key_type], MANY, COLUMNS, WIDE)
    if v_direct:
        rows = VALUE_ROWS[value_type]
        v_product = make_rows_product(f"{value_type}_values", rows, MANY, COLUMNS, WIDE)

    @inline
    def rows_alike(scratch, rows, row, begin):
        """How many rows from `row` on, up to MANY, see the same keys of the block at `begin`."""
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        low, high = max(lows[row], begin), min(highs[row], begin + BLOCK_SIZE)
        count = 1
        while count < min(MANY, rows - row):
            other = row + count
            if max(lows[other], begin) != low or min(highs[other], begin + BLOCK_SIZE) != high:
                break
            if (lows[other] < begin) != (lows[row] < begin):  # one adds to its output, one begins
                break
            count += 1
        return count

    @inline
    def values_of_block(product, scratch, rows, begin, matrix, row_bytes, per_32, width, ahead):
        """Adds the block of keys [begin, begin + BLOCK_SIZE) of the tile to all outputs.

        per_32: bytes of 32 numbers. Columns beyond the last whole COLUMNS are left to the caller.
        """
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        row = 0
        while row < rows:
            low, high = max(lows[row], begin), min(highs[row], begin + BLOCK_SIZE)
            count = rows_alike(scratch, rows, row, begin)
            if low < high:
                skipped = (low - begin) * row_bytes
                scores, outputs = SCORE_ROWS_AT + 8 * row, OUTPUT_ROWS_AT + 8 * row
                keep = 0 if low == lows[row] else 1
                for i in range(0, width // COLUMNS * COLUMNS, COLUMNS):
                    at = skipped + i // COLUMNS * per_32
                    product(
                        count, scratch + scores, 4 * low, scratch + outputs, 4 * i,
                        matrix + at, row_bytes, high - low, keep, ahead + at,
                    )  # fmt: skip
            row += count

    @inline
    def rest_of_block(scratch, rows, begin, matrix, row_bytes, width):
        """The columns beyond the last whole COLUMNS, eight at a time, from a widened block."""
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        for row in range(rows):
            low, high = max(lows[row], begin), min(highs[row], begin + BLOCK_SIZE)
            if low < high:
                start = matrix + (low - begin) * row_bytes
                scores, outputs = SCORE_ROWS_AT + 8 * row, OUTPUT_ROWS_AT + 8 * row
                keep = 0 if low == lows[row] else 1
                for i in range(width // COLUMNS * COLUMNS, width, NARROW):
                    wide_narrow(
                        1, scratch + scores, 4 * low, scratch + outputs, 4 * i,
                        start + 4 * i, row_bytes, high - low, keep, start,
                    )  # fmt: skip

    @inline
    def scores_of_block(product, scratch, rows, matrix, row_bytes, head_dim, at, ahead):
        """Products of all query rows with the keys of a block, to byte `at` of their scores."""
        for row in range(0, rows, MANY):
            a, out = scratch + QUERY_ROWS_AT + 8 * row, scratch + SCORE_ROWS_AT + 8 * row
            product(min(MANY, rows - row), a, 0, out, at, matrix, row_bytes, head_dim, 0, ahead)

    @inline
    def nth_block(k_at, k_step, v_at, v_step, table, blocks, begin, end, n):
        """Where the n-th of the blocks lies that are read one after the other: those of keys from
        `begin` to `end`, their values, and the keys of the next tile.
        """
        count = end - begin
        number = i32(table, min(begin + n if n < count else begin + n - count, blocks - 1))
        return v_at + number * v_step if count <= n < 2 * count else k_at + number * k_step

    @inline
    def tile(
        scratch, keys, values, table, blocks, heads, head, rows, head_dim, value_dim, low, high,
        scale, cap, ramp,
    ):  # fmt: skip
        """keys, values: the layer's cache; table: block numbers of the tile's keys, and of later
        ones, `blocks` in all; heads, head: KV heads and which; low, high: the keys of the tile
        that any row sees; ramp: see weights_of.
        """
        k_size, v_size = head_dim * k_per_32, value_dim * v_per_32  # a block: 32 slots
        k_at, k_step = keys + head * k_size, heads * k_size
        v_at, v_step = values + head * v_size, heads * v_size
        if from_keys:
            v_at, v_step, v_size = k_at, k_step, k_size
        wide, turned = scratch + BLOCK_AT, scratch + TURNED_AT
        padded = (value_dim + 7) // 8 * 8
        seen = min(head_dim, (value_dim + 31) // 32 * 32)  # of keys that are values: whole scales
        is_direct = rows <= DIRECT_ROWS and head_dim % 32 == 0 and value_dim % 32 == 0
        begin, end = low // BLOCK_SIZE, (high + BLOCK_SIZE - 1) // BLOCK_SIZE
        for n in range(end - begin):
            matrix = nth_block(k_at, k_step, v_at, v_step, table, blocks, begin, end, n)
            ahead = nth_block(
                k_at, k_step, v_at, v_step, table, blocks, begin, end, n + BLOCKS_AHEAD
            )
            at = 4 * (begin + n) * BLOCK_SIZE
            if is_direct and k_direct:
                scores_of_block(k_product, scratch, rows, matrix, k_per_32, head_dim, at, ahead)
            else:
                ask_for_block(ahead, k_size)
                widen_keys(matrix, wide, head_dim)
                row_bytes = 4 * BLOCK_SIZE
                scores_of_block(wide_product, scratch, rows, wide, row_bytes, head_dim, at, wide)
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        maxima = pointer(scratch + MAXIMA_AT, np.float32)
        sums = pointer(scratch + SUMS_AT, np.float32)
        slopes = pointer(scratch + SLOPES_AT, np.float32)
        distances = pointer(scratch + AHEAD_AT, np.float32)
        for row in range(rows):
            if lows[row] < highs[row]:
                scores = pointer(scratch + SCORE_ROWS_AT, np.int64)[row] + 4 * lows[row]
                count = highs[row] - lows[row]
                maxima[row], sums[row] = weights_of(
                    scores, count, scale, cap, ramp, slopes[row], distances[row]
                )
        for n in range(end - begin, 2 * (end - begin)):
            matrix = nth_block(k_at, k_step, v_at, v_step, table, blocks, begin, end, n)
            ahead = nth_block(
                k_at, k_step, v_at, v_step, table, blocks, begin, end, n + BLOCKS_AHEAD
            )
            at = (begin + n - (end - begin)) * BLOCK_SIZE
            if is_direct and v_direct:
                row_bytes = value_dim // 32 * v_per_32
                values_of_block(
                    v_product, scratch, rows, at, matrix, row_bytes, v_per_32, value_dim, ahead
                )
                continue
            ask_for_block(ahead, v_size)
            if from_keys:
                widen_keys(matrix, turned, seen)
                turn(turned, wide, value_dim, padded)
            else:
                widen_values(matrix, wide, value_dim, padded)
            values_of_block(wide_product, scratch, rows, at, wide, 4 * padded, 128, padded, wide)
            rest_of_block(scratch, rows, at, wide, 4 * padded, padded)

    return tile
