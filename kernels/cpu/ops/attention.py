"""Attention over the KV cache.

Keys come in tiles of ATTENTION_TILE counted from position 0; every tile gives (max, sum, output)
for a query row, and tiles merge in order. Nothing else enters a row's arithmetic, so its bits
depend on its position alone.

Work is cut into items of up to MAX_ROWS query rows: some tokens of one sequence times the query
heads of one KV head, or some of them, whose keys and values are read together. Where that makes
too few items for the threads, a long context is cut into parts of some tiles: each leaves what its
tiles give in memory that all threads see, and who finishes the last part merges them.
"""

import numpy as np

from edgellm.kernels.cpu.atomics import atomic_add, atomic_store
from edgellm.kernels.cpu.layout import (
    ACTIVATION_BLOCK,
    ACTIVATION_BYTES,
    BLOCK_TABLES,
    BLOCKS_PER_SEQ,
    MAX_HEAD_DIM,
    NUM_SEQS,
    NUM_TOKENS,
    PART_COUNTS,
    PARTS,
    PARTS_BYTES,
    POSITIONS,
    QUERY_START,
    SCRATCH,
    SCRATCH_BYTES,
)
from edgellm.kernels.cpu.ops.attention_merge import finish_row, merge_row
from edgellm.kernels.cpu.ops.attention_parts import (
    bytes_of_slot,
    keep_tile,
    take_tile,
    use_slots,
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
from edgellm.kernels.cpu.ops.common import f32, i32, inline, number as number_of, split
from edgellm.kernels.cpu.ops.quantize import quantize_row
from edgellm.kernels.cpu.ops.shares import next_item
from edgellm.kernels.cpu.simd import pointer
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.program import ATTENTION_TILE

MAX_TOKENS = 32  # of one item
PARTS_A_THREAD = 4  # where items are cut, so that threads that are not equally fast end together
ZERO = np.float32(0.0)


@inline
def oldest_key(position, window, chunked):
    """The first key that a query sees."""
    if window == 0:
        return 0
    if chunked:
        return position // window * window
    return max(0, position + 1 - window)


@inline
def cut(args, step, threads, count, tiles):
    """How to cut the work of a sequence of `count` tokens whose keys lie in so many tiles: tokens
    and heads of an item, the most parts of its tiles, and how many items stay whole: where there
    is one sequence, as many as there are threads, or a multiple of that.
    """
    per_group = args[7] // args[8]
    heads = min(per_group, MAX_ROWS)
    tokens = max(1, min(MAX_TOKENS, MAX_ROWS // heads))
    groups = args[8] * ((per_group + heads - 1) // heads)
    items = groups * max(step[NUM_SEQS], (step[NUM_TOKENS] + tokens - 1) // tokens)
    if threads == 1 or items >= 2 * threads:
        return tokens, heads, 1, 0
    if items * tiles >= 2 * threads:
        whole = items // threads * threads if step[NUM_SEQS] == 1 else 0
        rest = max(1, items - whole)
        return tokens, heads, (PARTS_A_THREAD * threads + rest - 1) // rest, whole
    wanted = (2 * threads + items - 1) // items
    tokens = max(1, min(tokens, (count + wanted - 1) // wanted))
    items = items * ((count + tokens - 1) // tokens)
    if items < threads:
        wanted = (threads + items - 1) // items
        heads = min(heads, (per_group + wanted - 1) // wanted)
    return tokens, heads, 1, 0


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

    @inline
    def run_tile(args, step, scratch, table, token, kv_head, heads, rows, number, newest, length):
        """Max, sum and output of a tile for each row; newest: the last key that any row sees."""
        key, before = number * ATTENTION_TILE, number * TILE_BLOCKS
        low, high = bounds(args, step, scratch, token, heads, rows, key, length)
        tile(
            scratch, args[4], args[5], table + 4 * before, newest // BLOCK_SIZE + 1 - before,
            args[8], kv_head, rows, args[9], args[10], low, high, number_of(args[11]),
            number_of(args[13]), args[17],
        )  # fmt: skip

    @inline
    def merge_tile(args, step, scratch, token, kv_head, first, heads, rows, number):
        """Adds a tile to the results of all rows that see any of it."""
        lows, highs = pointer(scratch + LOWS_AT, np.int64), pointer(scratch + HIGHS_AT, np.int64)
        maxima = pointer(scratch + MAXIMA_AT, np.float32)
        sums = pointer(scratch + SUMS_AT, np.float32)
        run_maxima = pointer(scratch + RUN_MAXIMA_AT, np.float32)
        run_sums = pointer(scratch + RUN_SUMS_AT, np.float32)
        outputs = pointer(scratch + OUTPUT_ROWS_AT, np.int64)
        for row in range(rows):
            if lows[row] == highs[row]:
                continue
            at = token + row // heads
            oldest = oldest_key(i32(step[POSITIONS], at), args[12], args[18])
            head = kv_head * (args[7] // args[8]) + first + row % heads
            merge_row(
                args[2] + 4 * (at * args[3] + head * args[10]), args[10], run_maxima, run_sums, row,
                outputs[row], maxima[row], sums[row], number == oldest // ATTENTION_TILE,
            )  # fmt: skip

    @inline
    def finish(args, scratch, token, kv_head, first, heads, rows):
        """The rows' results, as float32 and, where wanted, int8."""
        run_maxima = pointer(scratch + RUN_MAXIMA_AT, np.float32)
        run_sums = pointer(scratch + RUN_SUMS_AT, np.float32)
        width = args[10]
        for row in range(rows):
            head = kv_head * (args[7] // args[8]) + first + row % heads
            at = token + row // heads
            place = args[2] + 4 * (at * args[3] + head * width)
            finish_row(place, width, run_maxima[row], run_sums[row], args[14], head)
            if args[15]:
                record = head * width // ACTIVATION_BLOCK * ACTIVATION_BYTES
                quantize_row(place, args[15] + at * args[16] + record, width)

    @inline
    def run_tiles(
        args, step, scratch, table, token, kv_head, first, heads, rows, start, begin, end, newest,
        length, slots,
    ):  # fmt: skip
        """Tiles [begin, end) from tile `start` on: merged into the rows' results, or, where there
        are slots, kept for merge_parts.
        """
        slot_bytes = bytes_of_slot(args[10])
        for i in range(begin, end):
            at = slots + i * rows * slot_bytes
            if slots:
                use_slots(scratch, rows, at, slot_bytes)
            run_tile(
                args, step, scratch, table, token, kv_head, heads, rows, start + i, newest, length
            )
            if slots:
                keep_tile(scratch, rows, at, slot_bytes)
            else:
                merge_tile(args, step, scratch, token, kv_head, first, heads, rows, start + i)

    @inline
    def merge_parts(
        args, step, scratch, token, kv_head, first, heads, rows, start, tiles, length, slots
    ):
        """Merges what all parts have left in their slots, in the order of tiles."""
        slot_bytes = bytes_of_slot(args[10])
        for i in range(tiles):
            at = slots + i * rows * slot_bytes
            bounds(args, step, scratch, token, heads, rows, (start + i) * ATTENTION_TILE, length)
            use_slots(scratch, rows, at, slot_bytes)
            take_tile(scratch, rows, at, slot_bytes)
            merge_tile(args, step, scratch, token, kv_head, first, heads, rows, start + i)

    def attention(args, step, thread, threads):
        """args: q, q stride, output, output stride, key cache, value cache, group, heads,
        kv heads, head_dim, value_dim, scale, window (0 is none), soft-cap (0 is none), sinks or 0,
        int8 output or 0, its row bytes, the floats 0 to 7 and then slopes by head, or 0,
        whether windows are chunks, keys after a row's own that it sees, too.
        """
        kv_heads, per_group = args[8], args[7] // args[8]
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        slot_bytes = bytes_of_slot(args[10])
        item, own_item, cut_items, room = 0, thread, 0, 8 * PART_COUNTS
        for sequence in range(step[NUM_SEQS]):
            begin, end = i32(step[QUERY_START], sequence), i32(step[QUERY_START], sequence + 1)
            row_of_tables = args[6] * step[NUM_SEQS] + sequence
            table = step[BLOCK_TABLES] + 4 * row_of_tables * step[BLOCKS_PER_SEQ]
            if begin == end:
                continue
            length = i32(step[POSITIONS], end - 1) + 1
            oldest = oldest_key(i32(step[POSITIONS], begin), args[12], args[18])
            span = (length - 1) // ATTENTION_TILE + 1 - oldest // ATTENTION_TILE
            tokens, heads, wanted, whole = cut(args, step, threads, end - begin, span)
            splits = (per_group + heads - 1) // heads
            for token in range(begin, end, tokens):
                count = min(tokens, end - token)
                oldest = oldest_key(i32(step[POSITIONS], token), args[12], args[18])
                newest = min(i32(step[POSITIONS], token + count - 1) + args[19], length - 1)
                start = oldest // ATTENTION_TILE
                tiles = newest // ATTENTION_TILE + 1 - start
                size = tiles * count * heads * slot_bytes
                for group in range(kv_heads * splits):
                    slots, parts = step[PARTS] + room, min(wanted, tiles)
                    if whole > 0:
                        whole -= 1
                        parts = 1
                    if parts > 1 and (room + size > PARTS_BYTES or cut_items == PART_COUNTS):
                        parts = 1
                    done = pointer(step[PARTS] + 8 * cut_items, np.int64)
                    if parts > 1:
                        room += size
                        cut_items += 1
                    kv_head, first = group // splits, group % splits * heads
                    used = min(heads, per_group - first)
                    for part in range(parts):
                        item += 1
                        if item - 1 != own_item:
                            continue
                        rows = prepare(args, scratch, token, count, kv_head, first, used)
                        from_tile, to_tile = split(tiles, part, parts)
                        run_tiles(
                            args, step, scratch, table, token, kv_head, first, used, rows, start,
                            from_tile, to_tile, newest, length, slots if parts > 1 else 0,
                        )  # fmt: skip
                        own_item = next_item(args, own_item, threads)
                        if parts > 1 and atomic_add(done, 1) < parts - 1:
                            continue  # who does the last part goes on
                        if parts > 1:
                            atomic_store(done, 0)
                            merge_parts(
                                args, step, scratch, token, kv_head, first, used, rows, start,
                                tiles, length, slots,
                            )  # fmt: skip
                        finish(args, scratch, token, kv_head, first, used, rows)

    return attention


KERNELS = {"attention": make_attention}
