"""Attention over the KV cache.

Keys come in tiles of ATTENTION_TILE counted from position 0; every tile gives (max, sum, output)
for a query row, and tiles merge in order. Nothing else enters a row's arithmetic, so its bits
depend on its position alone.

Work is cut into items of up to MAX_ROWS query rows: some tokens of one sequence times the query
heads of one KV head, or some of them, whose keys and values are read together.
"""

import numpy as np

from edgellm.kernels.cpu.layout import (
    ACTIVATION_BLOCK,
    ACTIVATION_BYTES,
    BLOCK_TABLES,
    BLOCKS_PER_SEQ,
    MAX_HEAD_DIM,
    NUM_SEQS,
    NUM_TOKENS,
    POSITIONS,
    QUERY_START,
    SCRATCH,
    SCRATCH_BYTES,
)
from edgellm.kernels.cpu.ops.attention_tile import (
    AHEAD_AT,
    HIGHS_AT,
    LOWS_AT,
    MAX_ROWS,
    MAXIMA_AT,
    OUTPUT_ROWS_AT,
    OUTPUTS_AT,
    QUERY_ROWS_AT,
    RUN_MAXIMA_AT,
    RUN_SUMS_AT,
    SCORE_ROWS_AT,
    SCORES_AT,
    SLOPES_AT,
    SUMS_AT,
    TILE_BLOCKS,
    make_tile,
)
from edgellm.kernels.cpu.ops.common import exp, f32, i32, inline, number as number_of
from edgellm.kernels.cpu.ops.quantize import quantize_row
from edgellm.kernels.cpu.ops.shares import next_item
from edgellm.kernels.cpu.simd import (
    first_lane,
    load_f32_head,
    pointer,
    splat_f32,
    store_f32_head,
)
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.program import ATTENTION_TILE

MAX_TOKENS = 32  # of one item
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


@inline
def oldest_key(position, window, chunked):
    """The first key that a query sees."""
    if window == 0:
        return 0
    if chunked:
        return position // window * window
    return max(0, position + 1 - window)


def make_attention(key_type, value_type):
    tile = make_tile(key_type, value_type)

    @inline
    def prepare(args, scratch, token, count, kv_head, first, heads):
        """Fills in where the rows of an item are; returns how many there are."""
        q_rows = pointer(scratch + QUERY_ROWS_AT, np.int64)
        slopes = pointer(scratch + SLOPES_AT, np.float32)
        score_rows = pointer(scratch + SCORE_ROWS_AT, np.int64)
        outputs = pointer(scratch + OUTPUT_ROWS_AT, np.int64)
        per_group = args[7] // args[8]
        for row in range(count * heads):
            at = kv_head * per_group + first + row % heads
            q_rows[row] = args[0] + 4 * ((token + row // heads) * args[1] + at * args[9])
            score_rows[row] = scratch + SCORES_AT + 4 * ATTENTION_TILE * row
            slopes[row] = f32(args[17], 8 + at) if args[17] else ZERO
            outputs[row] = scratch + OUTPUTS_AT + 4 * MAX_HEAD_DIM * row
        return count * heads

    @inline
    def bounds(args, step, scratch, token, heads, rows, start, length):
        """Which keys of the tile at `start` each row sees; returns the first and the end of all.

        length: tokens of the sequence so far.
        """
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        ahead = pointer(scratch + AHEAD_AT, np.float32)
        lowest, highest = ATTENTION_TILE, 0
        for row in range(rows):
            seen = i32(step[POSITIONS], token + row // heads) + 1
            begin = oldest_key(seen - 1, args[12], args[18])
            last = min(seen + args[19], length)
            lows[row] = max(0, begin - start)
            ahead[row] = np.float32(start + lows[row] + 1 - seen)
            highs[row] = max(lows[row], min(ATTENTION_TILE, last - start))
            if lows[row] < highs[row]:
                lowest, highest = min(lowest, lows[row]), max(highest, highs[row])
        return lowest, highest

    def attention(args, step, thread, threads):
        """args: q, q stride, output, output stride, key cache, value cache, group, heads,
        kv heads, head_dim, value_dim, scale, window (0 is none), soft-cap (0 is none), sinks or 0,
        int8 output or 0, its row bytes, the floats 0 to 7 and then slopes by head, or 0,
        whether windows are chunks, keys after a row's own that it sees, too.
        """
        kv_heads, value_dim = args[8], args[10]
        per_group = args[7] // kv_heads
        heads = min(per_group, MAX_ROWS)
        groups = step[NUM_TOKENS] * kv_heads
        if groups < threads:  # too few for all threads: heads of one group are shared out, too
            each = (threads + groups - 1) // groups
            heads = min(heads, (per_group + each - 1) // each)
        splits = (per_group + heads - 1) // heads
        tokens = max(1, min(MAX_TOKENS, MAX_ROWS // heads))
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        run_maxima = pointer(scratch + RUN_MAXIMA_AT, np.float32)
        run_sums = pointer(scratch + RUN_SUMS_AT, np.float32)
        maxima = pointer(scratch + MAXIMA_AT, np.float32)
        sums = pointer(scratch + SUMS_AT, np.float32)
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        item, own_item = 0, thread
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            row_of_tables = args[6] * step[NUM_SEQS] + sequence
            table = step[BLOCK_TABLES] + 4 * row_of_tables * step[BLOCKS_PER_SEQ]
            length = i32(step[POSITIONS], end - 1) + 1 if begin < end else 0
            for token in range(begin, end, tokens):
                count = min(tokens, end - token)
                for part in range(kv_heads * splits):
                    item += 1
                    if item - 1 != own_item:
                        continue
                    own_item = next_item(args, own_item, threads)
                    kv_head, first = part // splits, part % splits * heads
                    used = min(heads, per_group - first)
                    rows = prepare(args, scratch, token, count, kv_head, first, used)
                    start = oldest_key(i32(step[POSITIONS], token), args[12], args[18])
                    newest = i32(step[POSITIONS], token + count - 1) + args[19]
                    newest = min(newest, length - 1)
                    for number in range(start // ATTENTION_TILE, newest // ATTENTION_TILE + 1):
                        low, high = bounds(
                            args, step, scratch, token, used, rows, number * ATTENTION_TILE, length
                        )
                        done = number * TILE_BLOCKS
                        tile(
                            scratch, args[4], args[5], table + 4 * done,
                            newest // BLOCK_SIZE + 1 - done, kv_heads, kv_head, rows, args[9],
                            value_dim, low, high, number_of(args[11]), number_of(args[13]),
                            args[17],
                        )  # fmt: skip
                        for row in range(rows):
                            if lows[row] == highs[row]:
                                continue
                            place = token + row // used
                            oldest = oldest_key(i32(step[POSITIONS], place), args[12], args[18])
                            head = kv_head * per_group + first + row % used
                            merge_row(
                                args[2] + 4 * (place * args[3] + head * value_dim), value_dim,
                                run_maxima, run_sums, row,
                                scratch + OUTPUTS_AT + 4 * MAX_HEAD_DIM * row,
                                maxima[row], sums[row], number == oldest // ATTENTION_TILE,
                            )  # fmt: skip
                    for row in range(rows):
                        head = kv_head * per_group + first + row % used
                        at = token + row // used
                        place = args[2] + 4 * (at * args[3] + head * value_dim)
                        finish_row(place, value_dim, run_maxima[row], run_sums[row], args[14], head)
                        if args[15]:
                            record = head * value_dim // ACTIVATION_BLOCK * ACTIVATION_BYTES
                            quantize_row(place, args[15] + at * args[16] + record, value_dim)

    return attention


KERNELS = {"attention": make_attention}
