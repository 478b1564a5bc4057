"""Prefixes held by something that is no sequence: read to be saved, filled to be restored.

Knows nothing of sequences, nor of who pins and why. Plain Python.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgellm.block_pool import BlockPool
from edgellm.limits import Limits
from edgellm.prefix_nodes import Hit, Scales
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

    @property
    def is_empty(self) -> bool:
        return not self._pins

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

    def make_room(
        self,
        ids: Seq[int],
        first: list[int],
        counts: list[int],
        has_state: bool,
        scales: Scales = (),
    ) -> Pin | None:
        """Fresh blocks for a prefix that is to be cached; None when too few are free."""
        pairs = zip(self._pools, counts, strict=True)
        if any(count > pool.num_free for pool, count in pairs):
            return None
        state = None
        if self._states is not None and has_state:
            if not self._states.num_free:
                return None
            (state,) = self._states.allocate(1)
        blocks = [pool.allocate(n) for pool, n in zip(self._pools, counts, strict=True)]
        pin = Pin(tuple(ids), scales, list(first), blocks, state)
        self._pins.append(pin)
        return pin

    def fits(self, num_tokens: int, first: list[int], counts: list[int], has_state: bool) -> bool:
        """Whether a prefix of so many tokens is stored in these blocks and with such a state."""
        total = self._limits.blocks_of(num_tokens)
        groups = range(len(self._pools))
        wanted = [self._limits.left_behind(group, num_tokens) for group in groups]
        return (
            first == wanted
            and counts == [total - begin for begin in wanted]
            and has_state is (self._states is not None and num_tokens > 0)
        )

    def adopt(self, pin: Pin) -> None:
        """Puts a prefix whose blocks are filled into the tree, as far as it has it not yet."""
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
        for pool, blocks in zip(self._pools, pin.blocks, strict=True):
            pool.free(reversed(blocks))
        if self._states is not None and pin.state is not None:
            self._states.free([pin.state])

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
