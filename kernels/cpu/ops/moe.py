"""Mixture of experts: choosing experts, their products, and the weighted sum.

Products go expert by expert, so that a batch reads each expert's weights once.
"""

import numpy as np

from edgellm.kernels.cpu.atomics import call_advise
from edgellm.kernels.cpu.emit import NARROW
from edgellm.kernels.cpu.layout import (
    ACTIVATION_BLOCK,
    ACTIVATION_BYTES,
    NUM_TOKENS,
    SCRATCH,
    SCRATCH_BYTES,
)
from edgellm.kernels.cpu.ops.common import exp, f32, inline, number, sigmoid, split
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
from edgellm.kernels.cpu.simd import (
    first_lane,
    fma,
    load_f32,
    load_f32_head,
    offset,
    pointer,
    splat_f32,
    store_f32,
    store_f32_head,
)
from edgellm.kernels.formats import by_id
from edgellm.kernels.ops.moe import MIN_GATE_SUM

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
MINUS_INFINITY = np.float32(-np.inf)
MIN_SUM = np.float32(MIN_GATE_SUM)
PAIRS_AT = END_OF_SCRATCH  # int64 per (token, rank) of the expert at hand


@inline
def exp_scalar(x):
    """e ** x with the same bits as the vector function."""
    return first_lane(exp(splat_f32(x)))


@inline
def drop_groups(ranking, experts, groups, used, best):
    """Minus infinity for experts outside the `used` groups with the highest scores.

    Of two equal groups the higher number goes first. Group scores lie behind the ranking.
    """
    size = experts // groups
    scores = offset(ranking, experts)
    for g in range(groups):
        first, second = MINUS_INFINITY, MINUS_INFINITY
        for e in range(g * size, (g + 1) * size):
            if ranking[e] > first:
                first, second = ranking[e], first
            elif ranking[e] > second:
                second = ranking[e]
        scores[g] = first + second if best == 2 else first
    for _ in range(groups - used):
        worst = groups - 1
        for g in range(groups - 2, -1, -1):
            if scores[g] < scores[worst]:
                worst = g
        scores[worst] = -MINUS_INFINITY
        for e in range(worst * size, (worst + 1) * size):
            ranking[e] = MINUS_INFINITY


def make_moe_route(gating):
    is_softmax, is_sigmoid = gating == "softmax", gating == "sigmoid"
    is_selected = gating == "softmax_selected"

    def moe_route(args, step, thread, threads):
        """args: scores, scores stride, output, output stride, experts, top_k, selection bias or
        0, normalize, factor, groups, groups used, how many experts score a group.
        """
        experts, top_k = args[4], args[5]
        factor = number(args[8])
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        values, ranking = pointer(scratch, np.float32), pointer(scratch + 4 * experts, np.float32)
        begin, end = split(step[NUM_TOKENS], thread, threads)
        for token in range(begin, end):
            scores = pointer(args[0] + 4 * token * args[1], np.float32)
            out = pointer(args[2] + 4 * token * args[3], np.float32)
            largest, total = MINUS_INFINITY, ZERO
            for e in range(experts):
                largest = max(largest, scores[e])
            for e in range(experts):
                value = scores[e]
                if is_softmax:
                    value = exp_scalar(scores[e] - largest)
                if is_sigmoid:
                    value = first_lane(sigmoid(splat_f32(scores[e])))
                values[e] = value
                total += value
            for e in range(experts):
                if is_softmax:
                    values[e] = values[e] / total
                ranking[e] = values[e]
                if args[6]:
                    ranking[e] = values[e] + f32(args[6], e)
            if args[9] > 1:
                drop_groups(ranking, experts, args[9], args[10], args[11])
            chosen = ZERO
            for rank in range(top_k):
                best = 0
                for e in range(1, experts):
                    if ranking[e] > ranking[best]:
                        best = e
                ranking[best] = MINUS_INFINITY
                weight = values[best]
                if is_selected:
                    weight = exp_scalar(weight - largest)
                out[rank] = np.float32(best)
                out[top_k + rank] = weight
                chosen += weight
            if args[7]:
                chosen = max(chosen, MIN_SUM)
            for rank in range(top_k):
                weight = out[top_k + rank]
                if is_selected or args[7]:
                    weight = weight / chosen
                out[top_k + rank] = weight * factor

    return moe_route


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


def make_fetch_experts():
    def fetch_experts(args, step, thread, threads):
        """args: routing, routing stride, top_k, weight, bytes of an expert, bytes of a page, the
        address of madvise, its word for soon needed.
        """
        begin, end = split(step[NUM_TOKENS] * args[2], thread, threads)
        for item in range(begin, end):
            row = args[0] + 4 * (item // args[2] * args[1])
            start = args[3] + np.int64(f32(row, item % args[2])) * args[4]
            first = start // args[5] * args[5]
            call_advise(args[6], first, start + args[4] - first, args[7])

    return fetch_experts


def make_leave_experts():
    def leave_experts(args, step, thread, threads):
        """args: top_k, experts, weight, its bytes, bytes of a page, the address of madvise, its
        word for not needed.
        """
        if thread == 0 and step[NUM_TOKENS] * args[0] >= args[1]:
            first = (args[2] + args[4] - 1) // args[4] * args[4]
            end = (args[2] + args[3]) // args[4] * args[4]
            call_advise(args[5], first, max(0, end - first), args[6])

    return leave_experts


def make_moe_combine():
    def moe_combine(args, step, thread, threads):
        """args: x, x stride, output, output stride, width, routing, routing stride, top_k."""
        width, top_k = args[4], args[7]
        begin, end = split(step[NUM_TOKENS], thread, threads)
        for token in range(begin, end):
            x = args[0] + 4 * token * args[1]
            y = args[2] + 4 * token * args[3]
            weights = args[5] + 4 * (token * args[6] + top_k)
            for i in range(0, width, 8):
                rest = min(8, width - i)
                acc = splat_f32(ZERO)
                for rank in range(top_k):
                    place = x + 4 * (rank * width + i)
                    weight = splat_f32(f32(weights, rank))
                    if rest == 8:
                        acc = fma(weight, load_f32(place), acc)
                    else:
                        acc = fma(weight, load_f32_head(place, rest), acc)
                if rest == 8:
                    store_f32(y + 4 * i, acc)
                else:
                    store_f32_head(y + 4 * i, acc, rest)

    return moe_combine


def make_moe_gate():
    def moe_gate(args, step, thread, threads):
        """args: x, x stride, output, gate, gate stride."""
        begin, end = split(step[NUM_TOKENS], thread, threads)
        for token in range(begin, end):
            factor = sigmoid(splat_f32(f32(args[3], token * args[4])))
            start = 4 * token * args[1]
            for i in range(start, start + 4 * args[1], 32):
                store_f32(args[2] + i, load_f32(args[0] + i) * factor)

    return moe_gate


KERNELS = {
    "moe_route": make_moe_route,
    "moe_matmul": make_moe_matmul,
    "moe_float_matmul": make_moe_float_matmul,
    "moe_combine": make_moe_combine,
    "fetch_experts": make_fetch_experts,
    "leave_experts": make_leave_experts,
    "moe_gate": make_moe_gate,
}
