"""Who holds which block of the key-value cache. Knows nothing of what a block stores.

A block is a number below `num_blocks`; several sequences may hold one. Plain Python.
"""

from collections import Counter
from collections.abc import Iterable


class BlockPool:
    """Hands out blocks and counts their holders. One pool per KV group."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._references = [0] * num_blocks
        # A stack: the block freed last is handed out first, so little memory is ever touched.
        self._free = list(range(num_blocks - 1, -1, -1))

    @property
    def num_free(self) -> int:
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """`count` blocks, each with one holder. ValueError when fewer are free: ask num_free."""
        if count > len(self._free):
            raise ValueError(f"{count} blocks asked of a pool with {len(self._free)} free")
        blocks = [self._free.pop() for _ in range(count)]
        for block in blocks:
            self._references[block] = 1
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """One more holder for each of these blocks."""
        for block in blocks:
            if not self._references[block]:
                raise ValueError(f"block {block} is free and cannot be shared")
            self._references[block] += 1

    def free(self, blocks: Iterable[int]) -> None:
        """One holder fewer for each of these blocks; those without any can be allocated again."""
        for block in blocks:
            if not self._references[block]:
                raise ValueError(f"block {block} is free already")
            self._references[block] -= 1
            if not self._references[block]:
                self._free.append(block)

    def check_integrity(self, holders: Iterable[Iterable[int]]) -> None:
        """RuntimeError unless these lists of blocks, one per holder, are all that is held."""
        held = Counter(block for blocks in holders for block in blocks)
        counted = {block: n for block, n in enumerate(self._references) if n}
        if dict(held) != counted:
            raise RuntimeError(f"blocks held {dict(held)}, references counted {counted}")
        if len(self._free) != len(set(self._free)) or held.keys() & set(self._free):
            raise RuntimeError("a block is free twice, or free and held")
        if len(self._free) + len(counted) != self.num_blocks:
            raise RuntimeError(f"{self.num_blocks} blocks, {len(counted)} held, some lost")
