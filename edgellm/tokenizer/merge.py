"""Greedy pair merging, the heart of BPE and SPM. Knows nothing of vocabularies or ids.

The rule: among all neighbours whose joined key has a rank, join those of the lowest rank, the
leftmost first; repeat until no pair has a rank. Both functions below give exactly that result.
"""

import sys
from collections.abc import Callable
from heapq import heapify, heappop, heappush

NEVER = sys.maxsize  # the rank of a pair that is not joined

_SHORT = 64  # symbols; below this rescanning a short list beats the heap


def merge(symbols: list[str], rank: Callable[[str], int], joint: str) -> list[str]:
    """The symbols left when nothing can be joined. `symbols` is used up.

    rank: of a pair, by the key left + joint + right. O(n log n) in the number of symbols, as long
    as the joined symbols are of bounded length.
    """
    if len(symbols) <= _SHORT:
        return _merge_short(symbols, rank, joint)
    return _merge_long(symbols, rank, joint)


def _merge_short(symbols: list[str], rank: Callable[[str], int], joint: str) -> list[str]:
    # pairs[i] is the rank of symbols i and i + 1.
    pairs = [rank(left + joint + right) for left, right in zip(symbols, symbols[1:], strict=False)]
    while pairs and (lowest := min(pairs)) != NEVER:
        i = pairs.index(lowest)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        del pairs[i]
        if i:
            pairs[i - 1] = rank(symbols[i - 1] + joint + symbols[i])
        if i < len(pairs):
            pairs[i] = rank(symbols[i] + joint + symbols[i + 1])
    return symbols


def _merge_long(symbols: list[str], rank: Callable[[str], int], joint: str) -> list[str]:
    count = len(symbols)
    before = list(range(-1, count - 1))
    after = list(range(1, count + 1))
    # pairs[i] is the rank of symbol i and the one after it; a heap entry that differs is outdated.
    pairs = [rank(left + joint + right) for left, right in zip(symbols, symbols[1:], strict=False)]
    pairs.append(NEVER)
    heap = [first * count + i for i, first in enumerate(pairs) if first != NEVER]
    heapify(heap)
    while heap:
        lowest, i = divmod(heappop(heap), count)
        if pairs[i] != lowest:
            continue
        gone = after[i]
        joined = symbols[i] = symbols[i] + symbols[gone]
        symbols[gone] = ""
        pairs[gone] = NEVER
        right = after[i] = after[gone]
        pairs[i] = NEVER
        if right < count:
            before[right] = i
            pairs[i] = new = rank(joined + joint + symbols[right])
            if new != NEVER:
                heappush(heap, new * count + i)
        left = before[i]
        if left >= 0:
            pairs[left] = new = rank(symbols[left] + joint + joined)
            if new != NEVER:
                heappush(heap, new * count + left)
    return [symbol for symbol in symbols if symbol]
