"""Which prefixes are in the cache: a tree over exact token ids in steps of a block.

A node stands for one block of tokens after those of its parent; the last block of a path may be
partial. Per KV group it names the block that stores them. A node whose keys and values a query
could not do without in every group it needs is not part of a hit. Knows nothing of sequences, and
holds no block itself: blocks of the tree are cached in their pools, which evict them when they
need room. Plain Python.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence as Seq
from itertools import chain

from edgellm.block_pool import BlockPool
from edgellm.prefix_nodes import (
    Hit,
    Node,
    Scales,
    begins_with,
    below,
    common_length,
    is_empty,
    normal_scales,
)


class PrefixTree:
    """Finds, adds and forgets prefixes.

    windows: per KV group the keys a query sees, itself included; None is all. states: the pool of
    recurrent states, of models that have one; a hit then ends where a state is kept.
    """

    def __init__(
        self,
        pools: tuple[BlockPool, ...],
        windows: tuple[int | None, ...],
        block_size: int,
        states: BlockPool | None = None,
    ) -> None:
        self._roots: dict[Scales, Node] = {}
        self._pools = pools
        self._windows = windows
        self._block_size = block_size
        self._states = states
        self._owners: list[dict[int, Node]] = [{} for _ in pools]  # block -> its node
        self._state_owners: dict[int, Node] = {}
        for group, pool in enumerate(pools):
            pool.on_evict(lambda block, group=group: self.forget(group, block))  # type: ignore[misc]
        if states is not None:
            states.on_evict(self.forget_state)

    def root(self, scales: Scales = ()) -> Node:
        """Where prefixes begin that are computed with these scales of the model's adapters."""
        return self._roots.setdefault(normal_scales(scales), Node((), None, []))

    def match(self, ids: Seq[int], limit: int, scales: Scales = ()) -> Hit:
        """The longest prefix of `ids`, of `limit` tokens at most, that every group can serve."""
        root = self._roots.get(normal_scales(scales))
        for hit in self._candidates(root, ids, limit) if root else ():
            if self._serves(hit):
                return hit
        return Hit(0, [])

    def shared(self, ids: Seq[int], scales: Scales = ()) -> int:
        """Tokens in whole blocks that another sequence began with too, whatever is stored there."""
        return len(self._path(self.root(scales), ids)) * self._block_size

    def extend(self, parent: Node, tokens: Seq[int], blocks: list[int | None]) -> Node | None:
        """The node of a block of tokens after `parent`, made unless it is there.

        blocks: per group one that stores them and is held; None where there is none. They become
        the node's where it has none yet. None when a longer node stores these tokens already.
        """
        key = tuple(tokens)
        siblings = parent.children if len(key) == self._block_size else parent.partials
        node = siblings.get(key)
        if node is None:
            longer = self._longer(parent, key)
            if longer is not None:
                self._touch(longer)
                return None
            if not self._can_own(blocks):
                return None
            node = siblings[key] = Node(key, parent, [None] * len(blocks))
            self._drop_shorter(parent, key)
        for group, (pool, block) in enumerate(zip(self._pools, blocks, strict=True)):
            if block is not None and node.blocks[group] is None and not pool.is_cached(block):
                pool.cache(block)
                node.blocks[group] = block
                self._owners[group][block] = node
        return node

    def keep_state(self, node: Node, slot: int) -> None:
        """The held `slot` stores the recurrent state after `node`, and is the tree's from here."""
        assert self._states is not None
        if node.state is None:
            self._states.cache(slot)
            node.state = slot
            self._state_owners[slot] = node
        self._states.free([slot])

    def forget(self, group: int, block: int) -> None:
        """The block does not store what it did. Without it in a full group no child is reached."""
        node = self._owners[group][block]
        if self._windows[group] is None:
            self._remove(node)
            return
        self._disown(group, node)
        self._prune(node)

    def forget_state(self, slot: int) -> None:
        """The slot does not store a recurrent state of the tree any more."""
        node = self._state_owners[slot]
        self._drop_state(node)
        self._prune(node)

    def leave(self, node: Node) -> None:
        """One sequence fewer that is to extend this node."""
        node.cursors -= 1
        self._prune(node)

    def clear(self) -> None:
        """Forgets every prefix that no sequence is in the middle of."""
        for node in list(self._all()):
            if not self._is_used(node):
                self._remove(node)

    def cached(self, group: int) -> list[int]:
        """The blocks of one group that the tree names."""
        return [b for n in self._all() if (b := n.blocks[group]) is not None]

    def cached_states(self) -> list[int]:
        """The slots of recurrent states that the tree names."""
        return [n.state for n in self._all() if n.state is not None]

    def check_integrity(self, extended: Iterable[Node]) -> None:
        """RuntimeError unless the nodes reached from the root are those that own blocks.

        extended: for every sequence the node that it is to extend.
        """
        cursors = Counter(extended)
        for node in chain(self._roots.values(), self._all()):
            if node.cursors != cursors[node]:
                raise RuntimeError(
                    f"{cursors[node]} sequences at a node that counts {node.cursors}"
                )
            if is_empty(node):
                raise RuntimeError("a node that stores nothing, leads nowhere and nobody extends")
        for node in self._all():
            whole = len(node.tokens) == self._block_size
            if not node.tokens or (node.children or node.partials or node.cursors) and not whole:
                raise RuntimeError("a partial block in the middle of a prefix")
            for group, (block, window) in enumerate(zip(node.blocks, self._windows, strict=True)):
                if block is None and window is None:
                    raise RuntimeError("a prefix without its block in a full group")
                if block is not None and self._owners[group].get(block) is not node:
                    raise RuntimeError(f"block {block} of group {group} belongs to another node")
        for group, owners in enumerate(self._owners):
            if len(owners) != len(self.cached(group)):
                raise RuntimeError("a block belongs to a node that is not in the tree")
        if len(self._state_owners) != len(self.cached_states()):
            raise RuntimeError("a state belongs to a node that is not in the tree")

    def _path(self, root: Node, ids: Seq[int]) -> list[Node]:
        """The nodes of whole blocks that `ids` begins with."""
        size, node = self._block_size, root
        path: list[Node] = []
        while child := node.children.get(tuple(ids[len(path) * size : (len(path) + 1) * size])):
            path.append(child)
            node = child
        return path

    def _candidates(self, root: Node, ids: Seq[int], limit: int) -> Iterator[Hit]:
        """Prefixes that the tree has after this root, the longest first."""
        size, path = self._block_size, self._path(root, ids)
        node = path[-1] if path else root
        if self._states is not None:
            yield from self._with_state(root, ids, path, limit)
            return
        common, inside = self._inside(node, ids[len(path) * size : (len(path) + 1) * size])
        length = min(limit, len(path) * size + common)
        nodes = [*path, inside] if inside else path
        if length > 0:
            yield Hit(length, nodes[: -(-length // size)])
        for depth in range((length - 1) // size, 0, -1):
            yield Hit(depth * size, path[:depth])

    def _with_state(self, root: Node, ids: Seq[int], path: list[Node], limit: int) -> Iterator[Hit]:
        """The prefixes along `path` after which a recurrent state is kept."""
        for depth in range(len(path), -1, -1):
            node = path[depth - 1] if depth else root
            start = depth * self._block_size
            for part in sorted(node.partials.values(), key=lambda n: -len(n.tokens)):
                end = start + len(part.tokens)
                if end <= limit and part.state is not None and begins_with(ids[start:end], part):
                    yield Hit(end, [*path[:depth], part])
            if start <= limit and node.state is not None:
                yield Hit(start, path[:depth])

    def _inside(self, parent: Node, ids: Seq[int]) -> tuple[int, Node | None]:
        """The child that shares most of its first tokens with `ids`, and how many."""
        best: tuple[int, bool, Node | None] = (0, False, None)
        for child in chain(parent.children.values(), parent.partials.values()):
            shared = common_length(child.tokens, ids)
            rank = shared, None not in child.blocks
            if rank > best[:2]:
                best = (*rank, child)
        return best[0], best[2]

    def _serves(self, hit: Hit) -> bool:
        """Whether every group still has what a query after this prefix sees."""
        for group, window in enumerate(self._windows):
            if window is not None:
                first = max(0, hit.num_tokens - window + 1) // self._block_size
                last = -(-hit.num_tokens // self._block_size)
                if any(node.blocks[group] is None for node in hit.path[first:last]):
                    return False
        return True

    def _longer(self, parent: Node, key: tuple[int, ...]) -> Node | None:
        """A sibling that begins with a partial block's tokens, and so serves as well."""
        if len(key) == self._block_size or self._states is not None:
            return None  # a recurrent state belongs to an exact end
        siblings = chain(parent.children.values(), parent.partials.values())
        return next((node for node in siblings if node.tokens[: len(key)] == key), None)

    def _drop_shorter(self, parent: Node, key: tuple[int, ...]) -> None:
        """A partial block that another one continues is not needed beside it."""
        for node in list(parent.partials.values()):
            shorter = len(node.tokens) < len(key) and begins_with(key, node)
            if shorter and node.state is None and not self._is_held(node):
                self._remove(node)

    def _can_own(self, blocks: list[int | None]) -> bool:
        """Whether a node can be made of these blocks: full groups cannot do without theirs."""
        for block, pool, window in zip(blocks, self._pools, self._windows, strict=True):
            if window is None and (block is None or pool.is_cached(block)):
                return False
        return True

    def _touch(self, node: Node) -> None:
        for pool, block in zip(self._pools, node.blocks, strict=True):
            if block is not None:
                pool.touch(block)

    def _is_held(self, node: Node) -> bool:
        pairs = zip(self._pools, node.blocks, strict=True)
        return any(block is not None and pool.holders(block) for pool, block in pairs)

    def _is_used(self, node: Node) -> bool:
        """Whether a sequence holds or extends the node or one below it."""
        return any(n.cursors or self._is_held(n) for n in (node, *below(node)))

    def _remove(self, node: Node) -> None:
        """Takes a node and all below it out of the tree."""
        assert node.parent is not None
        del self._siblings(node)[node.tokens]
        for gone in (node, *below(node)):
            for group in range(len(self._pools)):
                self._disown(group, gone)
            if gone.state is not None:
                self._drop_state(gone)
        self._prune(node.parent)

    def _prune(self, node: Node) -> None:
        """Removes nodes, upwards, that store nothing, lead nowhere and that nobody extends."""
        while is_empty(node):
            if node.parent is None:
                self._roots = {key: root for key, root in self._roots.items() if root is not node}
                return
            self._siblings(node).pop(node.tokens, None)
            node = node.parent

    def _disown(self, group: int, node: Node) -> None:
        block = node.blocks[group]
        if block is not None:
            node.blocks[group] = None
            del self._owners[group][block]
            self._pools[group].uncache(block)

    def _drop_state(self, node: Node) -> None:
        assert node.state is not None and self._states is not None
        slot, node.state = node.state, None
        del self._state_owners[slot]
        self._states.uncache(slot)

    def _siblings(self, node: Node) -> dict[tuple[int, ...], Node]:
        assert node.parent is not None
        whole = len(node.tokens) == self._block_size
        return node.parent.children if whole else node.parent.partials

    def _all(self) -> Iterator[Node]:
        """All nodes of the tree."""
        for root in self._roots.values():
            yield from below(root)
