"""Who holds which block of the key-value cache. Knows nothing of what a block stores.

A block is a number below `num_blocks`; several sequences may hold one. A block may be cached as
well: then it keeps its contents when its last holder leaves, until another one needs the room
(least recently used first). Plain Python.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable


class BlockPool:
    """Hands out blocks and counts their holders. One pool per KV group."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._references = [0] * num_blocks
        # A stack: the block freed last is handed out first, so little memory is ever touched.
        self._free = list(range(num_blocks - 1, -1, -1))
        self._cached = [False] * num_blocks
        # Cached and without holders; the least recently used first.
        self._evictable: OrderedDict[int, None] = OrderedDict()
        self._on_evict: Callable[[int], None] = self.uncache

    @property
    def num_free(self) -> int:
        """Blocks that can be allocated, those that must be evicted for it included."""
        return len(self._free) + len(self._evictable)

    def on_evict(self, forget: Callable[[int], None]) -> None:
        """Has `forget` called with a block whose room is needed; it must uncache at least it."""
        self._on_evict = forget

    def allocate(self, count: int) -> list[int]:
        """`count` blocks, each with one holder. ValueError when fewer are free: ask num_free."""
        if count > self.num_free:
            raise ValueError(f"{count} blocks asked of a pool with {self.num_free} free")
        while len(self._free) < count:
            self._on_evict(next(iter(self._evictable)))
        blocks = [self._free.pop() for _ in range(count)]
        for block in blocks:
            self._references[block] = 1
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """One more holder for each of these blocks."""
        for block in blocks:
            if not self._references[block]:
                if not self._cached[block]:
                    raise ValueError(f"block {block} is free and cannot be shared")
                del self._evictable[block]
            self._references[block] += 1

    def free(self, blocks: Iterable[int]) -> None:
        """One holder fewer for each; those without any can be allocated again, in this order."""
        for block in blocks:
            if not self._references[block]:
                raise ValueError(f"block {block} is free already")
            self._references[block] -= 1
            if not self._references[block]:
                if self._cached[block]:
                    self._evictable[block] = None
                else:
                    self._free.append(block)

    def holders(self, block: int) -> int:
        """How many hold this block."""
        return self._references[block]

    def is_cached(self, block: int) -> bool:
        """Whether the block keeps what it stores when its holders leave."""
        return self._cached[block]

    def is_shared(self, block: int) -> bool:
        """Whether anyone but one holder counts on what is stored in this block."""
        return self._cached[block] or self._references[block] > 1

    def cache(self, block: int) -> None:
        """Keeps what a held block stores when its holders leave."""
        if not self._references[block] or self._cached[block]:
            raise ValueError(f"block {block} is free, or cached already")
        self._cached[block] = True

    def uncache(self, block: int) -> None:
        """What the block stores is not wanted any more once its holders leave."""
        if not self._cached[block]:
            raise ValueError(f"block {block} is not cached")
        self._cached[block] = False
        if not self._references[block]:
            del self._evictable[block]
            self._free.append(block)

    def touch(self, block: int) -> None:
        """Counts as a use of a cached block that nobody holds."""
        if block in self._evictable:
            self._evictable.move_to_end(block)

    def check_integrity(self, holders: Iterable[Iterable[int]], cached: Iterable[int] = ()) -> None:
        """RuntimeError unless these lists of blocks, one per holder, are all that is held.

        cached: all blocks that are cached.
        """
        held = Counter(block for blocks in holders for block in blocks)
        counted = {block: n for block, n in enumerate(self._references) if n}
        if dict(held) != counted:
            raise RuntimeError(f"blocks held {dict(held)}, references counted {counted}")
        kept = sorted(block for block, is_cached in enumerate(self._cached) if is_cached)
        if kept != sorted(cached):
            raise RuntimeError(f"blocks {kept} are cached, and {sorted(cached)} should be")
        if set(kept) - held.keys() != self._evictable.keys():
            raise RuntimeError("the blocks that can be evicted are not the cached ones unheld")
        if len(self._free) != len(set(self._free)) or held.keys() & set(self._free):
            raise RuntimeError("a block is free twice, or free and held")
        if len(self._free) + len(held.keys() | set(kept)) != self.num_blocks:
            raise RuntimeError(f"{self.num_blocks} blocks, {len(counted)} held, some lost")
