"""Prefixes held by something that is no sequence: read to be saved, filled to be restored, or kept.

What is kept stays until newer ones need its place: all of it takes half of each pool at most, and
leaves one whole context, so that no sequence waits for it. Knows nothing of sequences, nor of who
pins and why. Plain Python.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgellm.block_pool import BlockPool
from edgellm.limits import Limits
from edgellm.prefix_nodes import Hit, Scales, same_scales
from edgellm.prefix_tree import PrefixTree


@dataclass(eq=False)
class Pin:
    """A prefix whose blocks nothing evicts or writes.

    scales: of the adapters that it is computed with. blocks: per KV group, those of blocks
    first[group] on, in position order. state: the slot of the recurrent state, of models that have
    one.
    """

    token_ids: tuple[int, ...]
    scales: Scales
    first: list[int]
    blocks: list[list[int]]
    state: int | None


class Pins:
    """All that is pinned in the cache of one model."""

    def __init__(
        self,
        tree: PrefixTree,
        pools: tuple[BlockPool, ...],
        limits: Limits,
        states: BlockPool | None,
    ) -> None:
        self._tree = tree
        self._pools = pools
        self._limits = limits
        self._states = states
        self._pins: list[Pin] = []
        self._kept: list[Pin] = []  # of those, the oldest first

    @property
    def is_empty(self) -> bool:
        """Whether all that is pinned is kept, and nobody need wait for anything."""
        return len(self._pins) == len(self._kept)

    @property
    def most_kept_tokens(self) -> int:
        """Tokens of the longest prefix that can be kept."""
        if self._states is not None and not self._spare_states:
            return 0
        most = self._limits.context_length
        for group, window in enumerate(self._limits.windows):
            blocks = self._spare_blocks(group)
            if window is None or self._limits.blocks_of(window) >= blocks:
                most = min(most, blocks * self._limits.block_size)
        return most

    def keep(self, ids: Seq[int], scales: Scales = ()) -> None:
        """Keeps what the cache has of `ids`, in place of older ones where room for it is short."""
        kept = self.pin(ids, scales)
        for old in list(self._kept):
            if old.token_ids == kept.token_ids[: len(old.token_ids)] and same_scales(
                old.scales, scales
            ):
                self.unpin(old)
        self._kept.append(kept)
        while not self._has_room():
            self.unpin(self._kept[0])

    def forget_kept(self) -> None:
        """Lets go of all that is kept."""
        while self._kept:
            self.unpin(self._kept[0])

    def pin(self, ids: Seq[int], scales: Scales = ()) -> Pin:
        """Holds the longest cached prefix of `ids`, perhaps of no tokens."""
        hit = self._tree.match(ids, len(ids), scales)
        shares = share(self._pools, self._limits, hit)
        state = hit.path[-1].state if hit.num_tokens else None
        if self._states is not None and state is not None:
            self._states.share([state])
        ids = tuple(ids[: hit.num_tokens])
        pin = Pin(
            ids, scales, [first for first, _ in shares], [blocks for _, blocks in shares], state
        )
        self._pins.append(pin)
        return pin

    def make_room(self, ids: Seq[int], scales: Scales = ()) -> Pin | None:
        """Fresh blocks for a prefix that is to be cached; None when too few are free."""
        total = self._limits.blocks_of(len(ids))
        first = [self._limits.left_behind(group, len(ids)) for group in range(len(self._pools))]
        pairs = [(pool, total - begin) for pool, begin in zip(self._pools, first, strict=True)]
        if any(count > pool.num_free for pool, count in pairs):
            return None
        state = None
        if self._states is not None and ids:
            if not self._states.num_free:
                return None
            (state,) = self._states.allocate(1)
        pin = Pin(tuple(ids), scales, first, [pool.allocate(n) for pool, n in pairs], state)
        self._pins.append(pin)
        return pin

    def adopt(self, pin: Pin) -> None:
        """Puts a prefix whose blocks are filled into the tree, as far as it has it not yet."""
        if not pin.token_ids:
            return
        size, node = self._limits.block_size, self._tree.root(pin.scales)
        for place in range(self._limits.blocks_of(len(pin.token_ids))):
            blocks = [
                held[place - first] if place >= first else None
                for held, first in zip(pin.blocks, pin.first, strict=True)
            ]
            tokens = pin.token_ids[place * size : (place + 1) * size]
            child = self._tree.extend(node, tokens, blocks)
            if child is None:
                return
            node = child
        if pin.state is not None:
            self._tree.keep_state(node, pin.state)
            pin.state = None

    def unpin(self, pin: Pin) -> None:
        """Lets go of a pinned prefix."""
        self._pins.remove(pin)
        if pin in self._kept:
            self._kept.remove(pin)
        for pool, blocks in zip(self._pools, pin.blocks, strict=True):
            pool.free(reversed(blocks))
        if self._states is not None and pin.state is not None:
            self._states.free([pin.state])

    def _spare_blocks(self, group: int) -> int:
        """Blocks of a group that what is kept may take."""
        total = self._pools[group].num_blocks
        return min(total // 2, total - self._limits.blocks(group, self._limits.context_length))

    @property
    def _spare_states(self) -> int:
        total = 0 if self._states is None else self._states.num_blocks
        return min(total // 2, total - self._limits.max_num_seqs)

    def _has_room(self) -> bool:
        for group in range(len(self._pools)):
            held = {block for pin in self._kept for block in pin.blocks[group]}
            if len(held) > self._spare_blocks(group):
                return False
        states = {pin.state for pin in self._kept if pin.state is not None}
        return self._states is None or len(states) <= self._spare_states

    def blocks(self, group: int) -> list[list[int]]:
        """Of every pin, what it holds of a group."""
        return [pin.blocks[group] for pin in self._pins]

    def states(self) -> list[int | None]:
        """Of every pin, the slot of its recurrent state."""
        return [pin.state for pin in self._pins]


def share(pools: tuple[BlockPool, ...], limits: Limits, hit: Hit) -> list[tuple[int, list[int]]]:
    """Per group one more holder of what a query after the prefix sees: first place, blocks."""
    shares = []
    for group, pool in enumerate(pools):
        first = limits.left_behind(group, hit.num_tokens)
        blocks = [b for n in hit.path[first:] if (b := n.blocks[group]) is not None]
        pool.share(blocks)
        shares.append((first, blocks))
    return shares
