"""Greedy pair merging, the heart of BPE and SPM. Knows nothing of vocabularies or ids.

The rule: among all neighbours whose joined key has a rank, join those of the lowest rank, the
leftmost first; repeat until no pair has a rank. Both functions below give exactly that result.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from math import inf

_SHORT = 64  # symbols; below this rescanning a short list beats the heap


def merge(symbols: list[str], ranks: Mapping[str, int], joint: str) -> list[str]:
    """The symbols left when nothing can be joined. `symbols` is used up.

    ranks: the key of a pair is left + joint + right. O(n log n) in the number of symbols, as long
    as the joined symbols are of bounded length.
    """
    if len(symbols) <= _SHORT:
        return _merge_short(symbols, ranks, joint)
    return _merge_long(symbols, ranks, joint)


def _merge_short(symbols: list[str], ranks: Mapping[str, int], joint: str) -> list[str]:
    get = ranks.get
    # pairs[i] is the rank of symbols i and i + 1; a pair that cannot join ranks last.
    pairs = [
        get(left + joint + right, inf) for left, right in zip(symbols, symbols[1:], strict=False)
    ]
    while pairs and (lowest := min(pairs)) != inf:
        i = pairs.index(lowest)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        del pairs[i]
        if i:
            pairs[i - 1] = get(symbols[i - 1] + joint + symbols[i], inf)
        if i < len(pairs):
            pairs[i] = get(symbols[i] + joint + symbols[i + 1], inf)
    return symbols


def _merge_long(symbols: list[str], ranks: Mapping[str, int], joint: str) -> list[str]:
    get = ranks.get
    count = len(symbols)
    before = list(range(-1, count - 1))
    after = list(range(1, count + 1))
    # pairs[i] is the rank of symbol i and the one after it; a heap entry that differs is outdated.
    pairs = [get(left + joint + right) for left, right in zip(symbols, symbols[1:], strict=False)]
    pairs.append(None)
    heap = [rank * count + i for i, rank in enumerate(pairs) if rank is not None]
    heapify(heap)
    while heap:
        rank, i = divmod(heappop(heap), count)
        if pairs[i] != rank:
            continue
        gone = after[i]
        joined = symbols[i] = symbols[i] + symbols[gone]
        symbols[gone] = ""
        pairs[gone] = None
        right = after[i] = after[gone]
        pairs[i] = None
        if right < count:
            before[right] = i
            pairs[i] = new = get(joined + joint + symbols[right])
            if new is not None:
                heappush(heap, new * count + i)
        left = before[i]
        if left >= 0:
            pairs[left] = new = get(symbols[left] + joint + joined)
            if new is not None:
                heappush(heap, new * count + left)
    return [symbol for symbol in symbols if symbol]
