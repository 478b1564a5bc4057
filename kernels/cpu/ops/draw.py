"""Tokens drawn from logits inside a step, which goes on with them.

What kernels/draw.py describes, in two kernels: each thread finds the best of its part of every row,
then each draws for some of the rows. Candidates, distances and sums are those of a draw outside
a step, in the same order and precision.
"""

import math

import numpy as np

from edgellm.kernels.cpu import draw_words as words
from edgellm.kernels.cpu.layout import (
    BLOCK_TABLES,
    BLOCKS_PER_SEQ,
    DRAWS,
    INPUT_IDS,
    NUM_OUTPUTS,
    NUM_SEQS,
    POSITIONS,
    SCRATCH,
    SCRATCH_BYTES,
    SLOT_MAPPING,
)
from edgellm.kernels.cpu.ops.best import find_best, insert
from edgellm.kernels.cpu.ops.common import f32, i32, inline, split
from edgellm.kernels.cpu.simd import pointer
from edgellm.kernels.draw import MOST_SOUGHT
from edgellm.kernels.kv import BLOCK_SIZE

MULTIPLIER_0, MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL_0, WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
ROUNDS = 10
LOW_HALF, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
TOPS = words.MOST_ROWS * words.FOUND_BYTES  # in a thread's scratch memory


@inline
def uniform(seed, sample_index, position):
    """A number in [0, 1) with 53 random bits. Source: Salmon et al. 2011 (Philox4x32-10)."""
    c0, c1 = np.uint64(position), np.uint64(sample_index)
    c2, c3 = np.uint64(0), np.uint64(0)
    k0, k1 = np.uint64(seed) & LOW_HALF, np.uint64(seed) >> HALF
    for _ in range(ROUNDS):
        a, b = MULTIPLIER_0 * c0, MULTIPLIER_1 * c2
        c0, c1 = (b >> HALF) ^ c1 ^ k0, b & LOW_HALF
        c2, c3 = (a >> HALF) ^ c3 ^ k1, a & LOW_HALF
        k0, k1 = (k0 + WEYL_0) & LOW_HALF, (k1 + WEYL_1) & LOW_HALF
    high, low = np.int64(c0 >> np.uint64(5)), np.int64(c1 >> np.uint64(6))
    return np.float64(high * (1 << 26) + low) * 2.0**-53


@inline
def sum_of_none(logits, size):
    """0, or no number where one of these logits is none: an infinite one may be meant."""
    total = np.float32(0.0)
    for i in range(size):
        if f32(logits, i) != f32(logits, i):
            total = f32(logits, i)
    return total


@inline
def merge(found, threads, count, values, ids):
    """The best of what all threads found: how many, or NO_NUMBERS where the largest logit is none.

    found: where thread 0 keeps it; the others SCRATCH_BYTES further each.
    """
    kept, doubt = 0, np.float32(0.0)
    for thread in range(threads):
        theirs = found + thread * SCRATCH_BYTES
        doubt += f32(theirs, count)
        for i in range(count):
            index = pointer(theirs + words.FOUND_IDS, np.int64)[i]
            if index < 0:  # its part was shorter
                break
            kept = insert(values, ids, kept, count, f32(theirs, i), index)
    is_number = doubt == np.float32(0.0) and abs(values[0]) < np.float32(np.inf)
    return kept if is_number else words.NO_NUMBERS


@inline
def leave_out(record, values, ids, count):
    """Takes the banned ones out; how many are left."""
    left = 0
    for i in range(count):
        is_banned = False
        for j in range(record[words.NUM_BANNED]):
            is_banned |= ids[i] == record[words.BANNED + j]
        if not is_banned:
            values[left], ids[left] = values[i], ids[i]
            left += 1
    return left


@inline
def running_sums(distances, count, sums):
    """Of the probabilities of `count` candidates, the best one's being 1; the last of them."""
    total = 0.0
    for i in range(count):
        total += math.exp(distances[i])
        sums[i] = total
    return total


@inline
def apply(kind, number, distances, count, sums):
    """One filter; how many candidates it leaves."""
    if kind == words.TEMPERATURE:
        for i in range(count):
            distances[i] = distances[i] / number
        return count
    left = 1
    if kind == words.MIN_P:
        while left < count and distances[left] >= number:
            left += 1
        return left
    share = number * running_sums(distances, count, sums)
    while left < count and sums[left - 1] < share:
        left += 1
    return left


@inline
def draw_one(address, values, distances, sums, count, position):
    """Which of `count` candidates, best first, is drawn for this position; address: the record."""
    record = pointer(address, np.int64)
    for i in range(count):
        distances[i] = np.float64(values[i]) - np.float64(values[0])
    numbers = pointer(address + 8 * words.NUMBERS, np.float64)
    for i in range(record[words.NUM_FILTERS]):
        left = apply(record[words.FILTERS + i], numbers[i], distances, count, sums)
        count = min(count, max(left, record[words.MIN_KEEP]))
    total = running_sums(distances, count, sums)
    share = uniform(record[words.SEED], record[words.SAMPLE_INDEX], position) * total
    place = 0
    while place < count - 1 and sums[place] <= share and sums[place] < total:
        place += 1
    return place


def make_best_parts():
    def best_parts(args, step, thread, threads):
        """args: logits, row stride, columns."""
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES
        begin, end = split(args[2], thread, threads)
        tops = pointer(scratch + TOPS, np.float32)
        for row in range(step[NUM_OUTPUTS]):
            record = pointer(step[DRAWS] + 8 * words.WORDS * row, np.int64)
            found = scratch + row * words.FOUND_BYTES
            values, ids = pointer(found, np.float32), pointer(found + words.FOUND_IDS, np.int64)
            count = record[words.SOUGHT]
            for i in range(end - begin, count):
                ids[i] = -1
            logits = args[0] + 4 * (row * args[1] + begin)
            find_best(logits, end - begin, count, begin, values, ids, tops)
            if values[count] != np.float32(0.0):
                values[count] = sum_of_none(logits, end - begin)

    return best_parts


def make_draw():
    def draw(args, step, thread, threads):
        """args: groups of layers with block tables of their own.

        Draws a token for each row, and puts it and its place where the next step will look.
        """
        scratch = step[SCRATCH] + thread * SCRATCH_BYTES + TOPS
        distances = pointer(scratch, np.float64)
        sums = pointer(scratch + 8 * MOST_SOUGHT, np.float64)
        ids = pointer(scratch + 16 * MOST_SOUGHT, np.int64)
        values = pointer(scratch + 24 * MOST_SOUGHT, np.float32)
        inputs, positions = pointer(step[INPUT_IDS], np.int32), pointer(step[POSITIONS], np.int32)
        slots = pointer(step[SLOT_MAPPING], np.int64)
        begin, end = split(step[NUM_SEQS], thread, threads)
        for row in range(begin, end):
            address = step[DRAWS] + 8 * words.WORDS * row
            record = pointer(address, np.int64)
            found = step[SCRATCH] + row * words.FOUND_BYTES
            count = merge(found, threads, record[words.SOUGHT], values, ids)
            position = np.int64(positions[row]) + 1
            token = np.int64(words.NO_NUMBERS)
            if count > 0:
                count = min(leave_out(record, values, ids, count), record[words.KEPT])
                if count == 1:
                    token = ids[0]
                elif count > 1:
                    token = ids[draw_one(address, values, distances, sums, count, position)]
            pointer(record[words.IDS], np.int64)[record[words.DRAWN]] = token
            record[words.DRAWN] += 1
            if record[words.DRAWN] == record[words.STEPS]:
                continue
            inputs[row] = token if token >= 0 else np.int64(0)
            positions[row] = np.int32(position)
            for group in range(args[0]):
                table = step[BLOCK_TABLES] + 4 * step[BLOCKS_PER_SEQ] * (
                    group * step[NUM_SEQS] + row
                )
                block = i32(table, position // BLOCK_SIZE)
                slots[group * step[NUM_SEQS] + row] = block * BLOCK_SIZE + position % BLOCK_SIZE

    return draw


KERNELS = {"best_parts": make_best_parts, "draw": make_draw}
