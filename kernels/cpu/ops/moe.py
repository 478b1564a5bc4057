"""Mixture of experts: choosing them, adding up what they give."""

import numpy as np

from edgellm.kernels.cpu.exponential import exp
from edgellm.kernels.cpu.layout import NUM_TOKENS, SCRATCH, SCRATCH_BYTES
from edgellm.kernels.cpu.ops.common import f32, inline, number, sigmoid, split
from edgellm.kernels.cpu.simd import first_lane, fma, offset, pointer, splat_f32
from edgellm.kernels.cpu.vector_memory import load_f32, load_f32_head, store_f32, store_f32_head
from edgellm.kernels.ops.moe import MIN_GATE_SUM

ZERO = np.float32(0.0)
MINUS_INFINITY = np.float32(-np.inf)
MIN_SUM = np.float32(MIN_GATE_SUM)


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


KERNELS = {
    "moe_route": make_moe_route,
    "moe_combine": make_moe_combine,
}
