"""The largest logits of a row."""

import numpy as np

from edgellm.kernels.cpu.atomics import ask_for
from edgellm.kernels.cpu.layout import BEST_GROUP, LINE
from edgellm.kernels.cpu.ops.common import f32, inline
from edgellm.kernels.cpu.simd import fma, max_lanes, maximum, pointer, splat_f32, sum_lanes
from edgellm.kernels.cpu.vector_memory import load_f32

AHEAD = 4096  # bytes asked for before they are read: right after a step they are far away
HALVINGS = 16  # in the search for a bound; an exact one is not worth more


@inline
def top_and_sum(group):
    """The largest and the sum of BEST_GROUP logits, per lane; by trees, so that none waits."""
    a, b = load_f32(group), load_f32(group + 32)
    c, d = load_f32(group + 64), load_f32(group + 96)
    e, f = load_f32(group + 128), load_f32(group + 160)
    g, h = load_f32(group + 192), load_f32(group + 224)
    first = maximum(maximum(a, b), maximum(c, d))
    second = maximum(maximum(e, f), maximum(g, h))
    return maximum(first, second), ((a + b) + (c + d)) + ((e + f) + (g + h))


@inline
def lower_bound(tops, num_tops, count, low, high):
    """A number that `count` of the tops or more reach, and not many more, between two others."""
    for _ in range(HALVINGS):
        middle = (low + high) * np.float32(0.5)
        reaching = np.int64(0)
        for i in range(num_tops):
            reaching += np.int64(tops[i] >= middle)
        if reaching >= count:
            low = middle
        else:
            high = middle
    return low


@inline
def insert(values, ids, kept, count, value, index):
    """Puts a value in its place, behind those that are as large; how many are kept then."""
    if kept == count:
        if value <= values[count - 1]:
            return kept
        place = count - 1
    else:
        place = kept
        kept += 1
    while place > 0 and values[place - 1] < value:
        values[place] = values[place - 1]
        ids[place] = ids[place - 1]
        place -= 1
    values[place] = value
    ids[place] = index
    return kept


@inline
def find_best(logits, size, count, first, values, ids, tops):
    """The `count` largest of `size` logits at this address, best first, of equals the first.

    first: the id of the first one. values, ids: where they go; behind the values a number that is
    0 if all logits are finite. tops: room for a float32 of each BEST_GROUP of logits.
    """
    num_tops = size // BEST_GROUP
    zero = splat_f32(np.float32(0.0))
    doubt = zero
    low, high = np.float32(np.inf), np.float32(-np.inf)
    for i in range(num_tops):
        for line in range(0, 4 * BEST_GROUP, LINE):
            ask_for(logits + 4 * BEST_GROUP * i + AHEAD + line)
        top, total = top_and_sum(logits + 4 * BEST_GROUP * i)
        doubt = fma(total, zero, doubt)
        tops[i] = max_lanes(top)
        low, high = min(low, tops[i]), max(high, tops[i])
    if num_tops < count:
        low = np.float32(-np.inf)
    elif count == 1:
        low = high
    else:
        low = lower_bound(tops, num_tops, count, low, high)
    kept = 0
    for i in range(num_tops):
        if tops[i] >= low:
            for j in range(BEST_GROUP * i, BEST_GROUP * (i + 1)):
                if f32(logits, j) >= low:
                    kept = insert(values, ids, kept, count, f32(logits, j), first + j)
    rest = np.float32(0.0)
    for j in range(BEST_GROUP * num_tops, size):
        rest += f32(logits, j) * np.float32(0.0)
        kept = insert(values, ids, kept, count, f32(logits, j), first + j)
    values[count] = sum_lanes(doubt) + rest


def make_best():
    def best(args, step, thread, threads):
        """args: logits, how many there are, how many are sought, float32 values, int64 ids, tops:
        as of find_best."""
        values, ids = pointer(args[3], np.float32), pointer(args[4], np.int64)
        find_best(args[0], args[1], args[2], 0, values, ids, pointer(args[5], np.float32))

    return best


KERNELS = {"best": make_best}
