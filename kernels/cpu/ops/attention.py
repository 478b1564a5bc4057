"""The KV cache: appending keys and values, and attention over them.

Each query row and KV head is one item of work. Its keys come in tiles of ATTENTION_TILE counted
from position 0; every tile gives (max, sum, output) and tiles merge in order, so the bits depend
on the position alone. Cache layout: (block, kv head, slot, dimension), see kernels/kv.py.
"""

import numpy as np

from edgellm.kernels.cpu.layout import (
    BLOCK_TABLES,
    BLOCKS_PER_SEQ,
    NUM_SEQS,
    NUM_TOKENS,
    POSITIONS,
    ROW_SEQS,
    SCRATCH,
    SCRATCH_BYTES,
    SLOT_MAPPING,
)
from edgellm.kernels.cpu.ops.common import exp, f32, i32, inline, number, split, tanh
from edgellm.kernels.cpu.simd import (
    first_lane,
    fma,
    load_f16,
    load_f16_head,
    load_f32,
    load_f32_head,
    max_lanes,
    maximum,
    pointer,
    splat_f32,
    store_f16,
    store_f16_head,
    store_f32,
    store_f32_head,
    sum_lanes,
)
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.ops import ATTENTION_TILE

# Reading and writing eight elements of a cache type, whole or the first few, and bytes each.
CACHE_TYPES = {
    "f32": (load_f32, load_f32_head, store_f32, store_f32_head, 4),
    "f16": (load_f16, load_f16_head, store_f16, store_f16_head, 2),
}
MINUS_INFINITY = np.float32(-np.inf)
ZERO = np.float32(0.0)
ONE = np.float32(1.0)

# Scratch of one thread: float32 scores of a tile for each query head of the group, and for each
# of them the running output, then this tile's output.
MAX_GROUP = 256
SCORES_AT = 0
STATES_AT = SCORES_AT + 4 * ATTENTION_TILE * MAX_GROUP


def make_store_kv(key_type, value_type):
    _, _, store_k, store_k_head, k_bytes = CACHE_TYPES[key_type]
    _, _, store_v, store_v_head, v_bytes = CACHE_TYPES[value_type]

    def store_kv(args, step, thread, threads):
        """args: k, k stride, v, v stride, key cache, value cache, group, kv heads, head_dim."""
        heads, head_dim = args[7], args[8]
        whole = head_dim // 8 * 8
        rest = head_dim - whole
        slots = pointer(step[SLOT_MAPPING] + 8 * args[6] * step[NUM_TOKENS], np.int64)
        begin, end = split(step[NUM_TOKENS] * heads, thread, threads)
        for item in range(begin, end):
            token, head = item // heads, item % heads
            slot = slots[token]
            place = (
                (slot // BLOCK_SIZE * heads + head) * BLOCK_SIZE + slot % BLOCK_SIZE
            ) * head_dim
            k = args[0] + 4 * (token * args[1] + head * head_dim)
            v = args[2] + 4 * (token * args[3] + head * head_dim)
            keys, values = args[4] + place * k_bytes, args[5] + place * v_bytes
            for i in range(0, whole, 8):
                store_k(keys + i * k_bytes, load_f32(k + 4 * i))
                store_v(values + i * v_bytes, load_f32(v + 4 * i))
            if rest:
                store_k_head(keys + whole * k_bytes, load_f32_head(k + 4 * whole, rest), rest)
                store_v_head(values + whole * v_bytes, load_f32_head(v + 4 * whole, rest), rest)

    return store_kv


def make_attention(key_type, value_type):
    load_k, load_k_head, _, _, k_bytes = CACHE_TYPES[key_type]
    load_v, load_v_head, _, _, v_bytes = CACHE_TYPES[value_type]

    @inline
    def dot(q, key, head_dim):
        whole = head_dim // 8 * 8
        acc = splat_f32(ZERO)
        for i in range(0, whole, 8):
            acc = fma(load_f32(q + 4 * i), load_k(key + i * k_bytes), acc)
        if whole < head_dim:
            rest = head_dim - whole
            q_rest, k_rest = (
                load_f32_head(q + 4 * whole, rest),
                load_k_head(key + whole * k_bytes, rest),
            )
            acc = fma(q_rest, k_rest, acc)
        return sum_lanes(acc)

    @inline
    def weights_of(scores, count, scale, cap):
        """Scores to exp(score - max) in place; returns (max, sum)."""
        whole = count // 8 * 8
        rest = count - whole
        top = splat_f32(MINUS_INFINITY)
        factor = splat_f32(scale)
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
            store_f32(scores + 4 * whole, p)
            total = total + load_f32_head(scores + 4 * whole, rest)
        return largest, sum_lanes(total)

    def attention(args, step, thread, threads):
        """args: q, q stride, output, output stride, key cache, value cache, group, heads,
        kv heads, head_dim, scale, window (0 is none), soft-cap (0 is none), sinks or 0.
        """
        kv_heads, head_dim = args[8], args[9]
        per_group = args[7] // kv_heads
        scale, cap, window = number(args[10]), number(args[12]), args[11]
        whole = head_dim // 8 * 8
        rest = head_dim - whole
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        maxima = pointer(scratch + STATES_AT, np.float32)
        totals = pointer(scratch + STATES_AT + 4 * MAX_GROUP, np.float32)
        begin, end = split(step[NUM_TOKENS] * kv_heads, thread, threads)
        for item in range(begin, end):
            token, kv_head = item // kv_heads, item % kv_heads
            sequence = i32(step[ROW_SEQS], token)
            table = step[BLOCK_TABLES] + 4 * (
                (args[6] * step[NUM_SEQS] + sequence) * step[BLOCKS_PER_SEQ]
            )
            last = i32(step[POSITIONS], token) + 1
            start = max(0, last - window) if window else 0
            q = args[0] + 4 * (token * args[1] + kv_head * per_group * head_dim)
            out = args[2] + 4 * (token * args[3] + kv_head * per_group * head_dim)
            for tile in range(start // ATTENTION_TILE, (last - 1) // ATTENTION_TILE + 1):
                low = max(start, tile * ATTENTION_TILE)
                high = min(last, (tile + 1) * ATTENTION_TILE)
                count = high - low
                is_first = low == start
                for position in range(low, high):
                    block = i32(table, position // BLOCK_SIZE)
                    place = (block * kv_heads + kv_head) * BLOCK_SIZE + position % BLOCK_SIZE
                    key = args[4] + place * head_dim * k_bytes
                    for h in range(per_group):
                        scores = pointer(scratch + SCORES_AT + 4 * h * ATTENTION_TILE, np.float32)
                        scores[position - low] = dot(q + 4 * h * head_dim, key, head_dim)
                for h in range(per_group):
                    scores = scratch + SCORES_AT + 4 * h * ATTENTION_TILE
                    target = out + 4 * h * head_dim
                    largest, total = weights_of(scores, count, scale, cap)
                    old_part, new_part = ZERO, ONE
                    if is_first:
                        maxima[h] = largest
                        totals[h] = total
                    else:
                        both = max(maxima[h], largest)
                        old_part = first_lane(exp(splat_f32(maxima[h] - both)))
                        new_part = first_lane(exp(splat_f32(largest - both)))
                        maxima[h] = both
                        totals[h] = totals[h] * old_part + total * new_part
                    for i in range(0, whole, 8):
                        acc = splat_f32(ZERO)
                        for position in range(low, high):
                            block = i32(table, position // BLOCK_SIZE)
                            place = (block * kv_heads + kv_head) * BLOCK_SIZE
                            place = (place + position % BLOCK_SIZE) * head_dim + i
                            p = splat_f32(f32(scores, position - low))
                            acc = fma(p, load_v(args[5] + place * v_bytes), acc)
                        if not is_first:
                            before = load_f32(target + 4 * i) * splat_f32(old_part)
                            acc = before + acc * splat_f32(new_part)
                        store_f32(target + 4 * i, acc)
                    if rest:
                        acc = splat_f32(ZERO)
                        for position in range(low, high):
                            block = i32(table, position // BLOCK_SIZE)
                            place = (block * kv_heads + kv_head) * BLOCK_SIZE
                            place = (place + position % BLOCK_SIZE) * head_dim + whole
                            p = splat_f32(f32(scores, position - low))
                            acc = fma(p, load_v_head(args[5] + place * v_bytes, rest), acc)
                        if not is_first:
                            before = load_f32_head(target + 4 * whole, rest) * splat_f32(old_part)
                            acc = before + acc * splat_f32(new_part)
                        store_f32_head(target + 4 * whole, acc, rest)
            for h in range(per_group):
                total, factor = totals[h], ONE
                if args[13]:
                    sink = f32(args[13], kv_head * per_group + h)
                    both = max(maxima[h], sink)
                    factor = first_lane(exp(splat_f32(maxima[h] - both)))
                    total = total * factor + first_lane(exp(splat_f32(sink - both)))
                inverse = splat_f32(factor / total)
                target = out + 4 * h * head_dim
                for i in range(0, whole, 8):
                    store_f32(target + 4 * i, load_f32(target + 4 * i) * inverse)
                if rest:
                    value = load_f32_head(target + 4 * whole, rest) * inverse
                    store_f32_head(target + 4 * whole, value, rest)

    return attention


KERNELS = {"store_kv": make_store_kv, "attention": make_attention}
