"""Attention over the KV cache.

Keys come in tiles of ATTENTION_TILE counted from position 0; every tile gives (max, sum, output)
for a query row, and tiles merge in order. Nothing else enters a row's arithmetic, so its bits
depend on its position alone.

Work is cut into items of up to MAX_ROWS query rows: some tokens of one sequence times the query
heads of one KV head, whose keys and values are read together.
"""

import numpy as np

from edgellm.kernels.cpu.isa import host_isa
from edgellm.kernels.cpu.layout import (
    ACTIVATION_BLOCK,
    ACTIVATION_BYTES,
    BLOCK_TABLES,
    BLOCKS_PER_SEQ,
    MAX_HEAD_DIM,
    NUM_SEQS,
    POSITIONS,
    QUERY_START,
    SCRATCH,
    SCRATCH_BYTES,
)
from edgellm.kernels.cpu.ops.common import exp, f32, i32, inline, number as number_of, tanh
from edgellm.kernels.cpu.ops.quantize import quantize_row
from edgellm.kernels.cpu.ops.store_kv import CACHE_TYPES
from edgellm.kernels.cpu.rows_product import ELEMENT_BYTES, make_rows_product
from edgellm.kernels.cpu.simd import (
    first_lane,
    load_f32,
    load_f32_head,
    max_lanes,
    maximum,
    pointer,
    splat_f32,
    store_f32,
    store_f32_head,
    sum_lanes,
)
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.ops import ATTENTION_TILE

MAX_ROWS = 64
MAX_TOKENS = 32  # of one item
DIRECT_ROWS = 4  # up to here blocks are read as they are, above they are widened once
TILE_BLOCKS = ATTENTION_TILE // BLOCK_SIZE
MANY = 4 if host_isa().vector_registers == 32 else 2  # rows of one inner loop
MINUS_INFINITY = np.float32(-np.inf)
ZERO = np.float32(0.0)
ONE = np.float32(1.0)

# Scratch of one thread, by query row: where its keys of this tile begin and end, addresses of its
# query, scores and output (int64), this tile's and the running max and sum (float32); then the
# scores of a tile, one widened block, outputs.
LOWS_AT = 0
HIGHS_AT = LOWS_AT + 8 * MAX_ROWS
QUERY_ROWS_AT = HIGHS_AT + 8 * MAX_ROWS
SCORE_ROWS_AT = QUERY_ROWS_AT + 8 * MAX_ROWS
OUTPUT_ROWS_AT = SCORE_ROWS_AT + 8 * MAX_ROWS
MAXIMA_AT = OUTPUT_ROWS_AT + 8 * MAX_ROWS
SUMS_AT = MAXIMA_AT + 4 * MAX_ROWS
RUN_MAXIMA_AT = SUMS_AT + 4 * MAX_ROWS
RUN_SUMS_AT = RUN_MAXIMA_AT + 4 * MAX_ROWS
SCORES_AT = RUN_SUMS_AT + 4 * MAX_ROWS
BLOCK_AT = SCORES_AT + 4 * ATTENTION_TILE * MAX_ROWS
OUTPUTS_AT = BLOCK_AT + 4 * BLOCK_SIZE * MAX_HEAD_DIM
END_OF_SCRATCH = OUTPUTS_AT + 4 * MAX_ROWS * MAX_HEAD_DIM
assert END_OF_SCRATCH <= SCRATCH_BYTES


@inline
def weights_of(scores, count, scale, cap):
    """Scores to exp(scale * score - max) in place, soft-capped first; returns (max, sum)."""
    whole = count // 8 * 8
    rest = count - whole
    factor, top = splat_f32(scale), splat_f32(MINUS_INFINITY)
    for i in range(0, 4 * (whole + 8 if rest else whole), 32):
        s = load_f32(scores + i) * factor
        if cap > ZERO:
            s = splat_f32(cap) * tanh(s / splat_f32(cap))
        store_f32(scores + i, s)
        if i < 4 * whole:
            top = maximum(s, top)
    largest = max_lanes(top)
    for i in range(whole, count):
        largest = max(largest, f32(scores, i))
    total = splat_f32(ZERO)
    for i in range(0, 4 * whole, 32):
        p = exp(load_f32(scores + i) - splat_f32(largest))
        store_f32(scores + i, p)
        total = total + p
    if rest:
        p = exp(load_f32_head(scores + 4 * whole, rest) - splat_f32(largest))
        store_f32_head(scores + 4 * whole, p, rest)
        total = total + load_f32_head(scores + 4 * whole, rest)
    return largest, sum_lanes(total)


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


def _make_widen(cache_type):
    load, load_head = CACHE_TYPES[cache_type][:2]
    element = ELEMENT_BYTES[cache_type]

    @inline
    def widen(source, target, rows, width, padded):
        """rows x width cache elements to float32 rows of `padded`."""
        for r in range(rows):
            for i in range(0, width, 8):
                place = source + (r * width + i) * element
                out = target + 4 * (r * padded + i)
                if i + 8 <= width:
                    store_f32(out, load(place))
                else:
                    store_f32(out, load_head(place, width - i))

    return widen


def make_tile(key_type, value_type):
    """tile(...): max, sum and output of one tile of keys for the rows of an item, in scratch."""
    widen_k, widen_v = _make_widen(key_type), _make_widen(value_type)
    k_bytes, v_bytes = ELEMENT_BYTES[key_type], ELEMENT_BYTES[value_type]
    k_many = make_rows_product(key_type, MANY, 4)
    k_one = make_rows_product(key_type, 1, 4)
    v_many = make_rows_product(value_type, MANY, 4)
    v_one = make_rows_product(value_type, 1, 4)
    wide_many = make_rows_product("f32", MANY, 4)
    wide_one = make_rows_product("f32", 1, 4)
    wide_narrow = make_rows_product("f32", 1, 1)

    @inline
    def add_values(many, one, scratch, row, rows, low, high, matrix, stride, at, position):
        """Keys [low, high) of one block for `rows` rows, 32 columns."""
        scores, outputs = scratch + SCORE_ROWS_AT + 8 * row, scratch + OUTPUT_ROWS_AT + 8 * row
        keep = 0 if low == pointer(scratch + LOWS_AT, np.int64)[row] else 1
        if rows == MANY:
            many(scores, 4 * low, outputs, at, matrix, stride, high - low, keep)
        else:
            one(scores, 4 * low, outputs, at, matrix, stride, high - low, keep)

    @inline
    def values_of_block(many, one, scratch, rows, begin, matrix, row_bytes, element, width):
        """Adds the block of keys [begin, begin + BLOCK_SIZE) of the tile to all outputs.

        Rows go together where they see the same keys of the block. Columns beyond the last
        whole 32 are left to the caller.
        """
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        row = 0
        while row < rows:
            low, high = max(lows[row], begin), min(highs[row], begin + BLOCK_SIZE)
            together = MANY if row + MANY <= rows else 1
            for other in range(row + 1, row + together):
                is_same = max(lows[other], begin) == low
                is_same = is_same and (lows[other] < begin) == (lows[row] < begin)  # both add on
                if not (is_same and min(highs[other], begin + BLOCK_SIZE) == high):
                    together = 1
            if low < high:
                start = matrix + (low - begin) * row_bytes
                for i in range(0, width // 32 * 32, 32):
                    add_values(
                        many, one, scratch, row, together, low, high,
                        start + i * element, row_bytes, 4 * i, begin,
                    )  # fmt: skip
            row += together

    @inline
    def rest_of_block(scratch, rows, begin, matrix, row_bytes, width):
        """The columns beyond the last whole 32, eight at a time, from a widened block."""
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        for row in range(rows):
            low, high = max(lows[row], begin), min(highs[row], begin + BLOCK_SIZE)
            if low < high:
                start = matrix + (low - begin) * row_bytes
                for i in range(width // 32 * 32, width, 8):
                    add_values(
                        wide_one, wide_narrow, scratch, row, 0, low, high,
                        start + 4 * i, row_bytes, 4 * i, begin,
                    )  # fmt: skip

    @inline
    def tile(scratch, keys, values, table, heads, head, rows, head_dim, low, high, scale, cap):
        """keys, values: the layer's cache; table: block numbers of the tile's keys; heads, head:
        KV heads and which; low, high: the keys of the tile that any row sees.
        """
        block_elements = BLOCK_SIZE * head_dim
        wide = scratch + BLOCK_AT
        padded = (head_dim + 7) // 8 * 8
        is_direct = rows <= DIRECT_ROWS and head_dim % 32 == 0
        begin, end = low // BLOCK_SIZE, (high + BLOCK_SIZE - 1) // BLOCK_SIZE
        q_rows, score_rows = scratch + QUERY_ROWS_AT, scratch + SCORE_ROWS_AT
        for block in range(begin, end):
            place = (i32(table, block) * heads + head) * block_elements
            matrix = keys + place * k_bytes
            if not is_direct:
                widen_k(matrix, wide, head_dim, BLOCK_SIZE, BLOCK_SIZE)
            row, at = 0, 4 * block * BLOCK_SIZE
            while row < rows:
                a, out = q_rows + 8 * row, score_rows + 8 * row
                if is_direct and row + MANY <= rows:
                    k_many(a, 0, out, at, matrix, BLOCK_SIZE * k_bytes, head_dim, 0)
                elif is_direct:
                    k_one(a, 0, out, at, matrix, BLOCK_SIZE * k_bytes, head_dim, 0)
                elif row + MANY <= rows:
                    wide_many(a, 0, out, at, wide, 4 * BLOCK_SIZE, head_dim, 0)
                else:
                    wide_one(a, 0, out, at, wide, 4 * BLOCK_SIZE, head_dim, 0)
                row += MANY if row + MANY <= rows else 1
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        maxima, sums = (
            pointer(scratch + MAXIMA_AT, np.float32),
            pointer(scratch + SUMS_AT, np.float32),
        )
        for row in range(rows):
            if lows[row] < highs[row]:
                scores = pointer(score_rows, np.int64)[row] + 4 * lows[row]
                count = highs[row] - lows[row]
                maxima[row], sums[row] = weights_of(scores, count, scale, cap)
        for block in range(begin, end):
            place = (i32(table, block) * heads + head) * block_elements
            matrix = values + place * v_bytes
            at = block * BLOCK_SIZE
            if is_direct:
                values_of_block(
                    v_many, v_one, scratch, rows, at, matrix, head_dim * v_bytes, v_bytes, head_dim
                )
            else:
                widen_v(matrix, wide, BLOCK_SIZE, head_dim, padded)
                values_of_block(wide_many, wide_one, scratch, rows, at, wide, 4 * padded, 4, padded)
                rest_of_block(scratch, rows, at, wide, 4 * padded, padded)

    return tile


def make_attention(key_type, value_type):
    tile = make_tile(key_type, value_type)

    @inline
    def prepare(args, step, scratch, sequence, token, count, kv_head, first, heads):
        """Fills the tables of query and score rows of an item; returns its number of rows."""
        q_rows, score_rows = (
            pointer(scratch + QUERY_ROWS_AT, np.int64), pointer(scratch + SCORE_ROWS_AT, np.int64),
        )  # fmt: skip
        outputs = pointer(scratch + OUTPUT_ROWS_AT, np.int64)
        per_group = args[7] // args[8]
        for row in range(count * heads):
            at = kv_head * per_group + first + row % heads
            q_rows[row] = args[0] + 4 * ((token + row // heads) * args[1] + at * args[9])
            score_rows[row] = scratch + SCORES_AT + 4 * ATTENTION_TILE * row
            outputs[row] = scratch + OUTPUTS_AT + 4 * MAX_HEAD_DIM * row
        return count * heads

    @inline
    def bounds(args, step, scratch, token, heads, rows, start):
        """Which keys of the tile at `start` each row sees; returns the first and the end of all."""
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        window = args[11]
        lowest, highest = ATTENTION_TILE, 0
        for row in range(rows):
            last = i32(step[POSITIONS], token + row // heads) + 1
            begin = max(0, last - window) if window else 0
            lows[row] = max(0, begin - start)
            highs[row] = max(lows[row], min(ATTENTION_TILE, last - start))
            if lows[row] < highs[row]:
                lowest, highest = min(lowest, lows[row]), max(highest, highs[row])
        return lowest, highest

    def attention(args, step, thread, threads):
        """args: q, q stride, output, output stride, key cache, value cache, group, heads,
        kv heads, head_dim, scale, window (0 is none), soft-cap (0 is none), sinks or 0, int8
        output or 0, its row bytes.
        """
        kv_heads, head_dim = args[8], args[9]
        per_group = args[7] // kv_heads
        heads = min(per_group, MAX_ROWS)
        splits = (per_group + heads - 1) // heads
        tokens = max(1, min(MAX_TOKENS, MAX_ROWS // heads))
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        run_maxima = pointer(scratch + RUN_MAXIMA_AT, np.float32)
        run_sums = pointer(scratch + RUN_SUMS_AT, np.float32)
        maxima = pointer(scratch + MAXIMA_AT, np.float32)
        sums = pointer(scratch + SUMS_AT, np.float32)
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        item = 0
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            row_of_tables = args[6] * step[NUM_SEQS] + sequence
            table = step[BLOCK_TABLES] + 4 * row_of_tables * step[BLOCKS_PER_SEQ]
            for token in range(begin, end, tokens):
                count = min(tokens, end - token)
                for part in range(kv_heads * splits):
                    item += 1
                    if item % threads != thread:
                        continue
                    kv_head, first = part // splits, part % splits * heads
                    used = min(heads, per_group - first)
                    rows = prepare(
                        args, step, scratch, sequence, token, count, kv_head, first, used
                    )
                    oldest = i32(step[POSITIONS], token) + 1
                    start = max(0, oldest - args[11]) if args[11] else 0
                    newest = i32(step[POSITIONS], token + count - 1)
                    for number in range(start // ATTENTION_TILE, newest // ATTENTION_TILE + 1):
                        low, high = bounds(
                            args, step, scratch, token, used, rows, number * ATTENTION_TILE
                        )
                        tile(
                            scratch, args[4], args[5], table + 4 * number * TILE_BLOCKS, kv_heads,
                            kv_head, rows, head_dim, low, high, number_of(args[10]),
                            number_of(args[12]),
                        )  # fmt: skip
                        for row in range(rows):
                            if lows[row] == highs[row]:
                                continue
                            place = token + row // used
                            seen = i32(step[POSITIONS], place) + 1
                            oldest_key = max(0, seen - args[11]) if args[11] else 0
                            head = kv_head * per_group + first + row % used
                            merge_row(
                                args[2] + 4 * (place * args[3] + head * head_dim), head_dim,
                                run_maxima, run_sums, row,
                                scratch + OUTPUTS_AT + 4 * MAX_HEAD_DIM * row,
                                maxima[row], sums[row], number == oldest_key // ATTENTION_TILE,
                            )  # fmt: skip
                    for row in range(rows):
                        head = kv_head * per_group + first + row % used
                        at = token + row // used
                        place = args[2] + 4 * (at * args[3] + head * head_dim)
                        finish_row(place, head_dim, run_maxima[row], run_sums[row], args[13], head)
                        if args[14]:
                            record = head * head_dim // ACTIVATION_BLOCK * ACTIVATION_BYTES
                            quantize_row(place, args[14] + at * args[15] + record, head_dim)

    return attention


KERNELS = {"attention": make_attention}
