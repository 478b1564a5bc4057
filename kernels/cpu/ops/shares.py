"""How threads share an op: of a large one most evenly, the rest in pieces to whoever is free.

A thread that gets less of its core or of the memory, or has a smaller core, then holds nobody up.
Small ops are not worth it: what is asked for ahead would often be somebody else's.
"""

from edgellm.kernels.cpu.atomics import atomic_add
from edgellm.kernels.cpu.layout import CLAIMED, FREE_PART, LARGE_BYTES, NEXT_BYTES, NEXT_WEIGHT
from edgellm.kernels.cpu.ops.common import inline, split
from edgellm.kernels.cpu.simd import offset

PIECES = 4  # for each thread


@inline
def first_share(units, size, thread, threads):
    """The first part [begin, end) of `units` for a thread; size: bytes of all units."""
    own = units - units // FREE_PART if threads > 1 and size >= LARGE_BYTES else units
    return split(own, thread, threads)


@inline
def next_share(args, units, size, threads):
    """Another part that nobody else does; empty when none is left."""
    if threads == 1 or size < LARGE_BYTES:
        return 0, 0
    own = units - units // FREE_PART
    pieces = min(PIECES * threads, units - own)
    piece = atomic_add(offset(args, CLAIMED - 1), 1)
    if piece >= pieces:
        return 0, 0
    begin, end = split(units - own, piece, pieces)
    return own + begin, own + end


@inline
def next_reading(args, size, thread, threads, end):
    """Where a thread reads weights after its first share of an op's, which ends at `end`.

    size: bytes of the op's weights. Of a large one further pieces come, which nobody knows yet.
    """
    if args[NEXT_WEIGHT - 1] == 0 or (threads > 1 and size >= LARGE_BYTES):
        return end
    return args[NEXT_WEIGHT - 1] + split(args[NEXT_BYTES - 1], thread, threads)[0]


def in_shares(run):
    """share(args, step, thread, threads, units, size): run(args, step, thread, threads, begin, end)
    on parts of an op's units until none is left. size: bytes of all units.
    """

    @inline
    def share(args, step, thread, threads, units, size):
        begin, end = first_share(units, size, thread, threads)
        while True:
            run(args, step, thread, threads, begin, end)
            begin, end = next_share(args, units, size, threads)
            if begin == end:
                break

    return share


@inline
def next_item(args, item, threads):
    """Which item of an op a thread does after `item`, of items counted from 0; its first has its
    own number.
    """
    if threads == 1:
        return item + 1
    return threads + atomic_add(offset(args, CLAIMED - 1), 1)
