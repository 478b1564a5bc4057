"""Which blocks each sequence holds: found in the cache, reserved, shared, kept for the next one.

A block that others count on is never written: it is copied first. What a sequence computed stays
in the prefix tree when it goes. Knows nothing of queues and budgets. Plain Python.
"""

from collections.abc import Iterable

from edgellm.block_pool import BlockPool
from edgellm.limits import Limits
from edgellm.pins import Pins, share
from edgellm.prefix_nodes import Hit, Node
from edgellm.prefix_tree import PrefixTree
from edgellm.sequence import BlockCopy, Sequence
from edgellm.sequence_states import SequenceStates


class BlockTables:
    """The pools, the prefix tree, and what sequences and pins hold of them.

    states: the pool of recurrent states, of models that have one.
    """

    def __init__(
        self, pools: tuple[BlockPool, ...], limits: Limits, states: BlockPool | None = None
    ) -> None:
        for group, pool in enumerate(pools):
            if pool.num_blocks < limits.blocks(group, limits.context_length):
                raise ValueError(f"the pool of group {group} does not hold one whole context")
        self.pools = pools
        self.tree = PrefixTree(pools, limits.windows, limits.block_size, states)
        self._limits = limits
        self._cursors: dict[Sequence, tuple[Node, int]] = {}  # last whole block in the tree, depth
        self.pins = Pins(self.tree, pools, limits, states)
        self._copies: list[BlockCopy] = []
        self.states = (
            None
            if states is None
            else SequenceStates(states, self.tree, limits.max_num_seqs, self._copies)
        )

    def take_copies(self) -> list[BlockCopy]:
        """What is to be copied, in this order, before blocks are read or written. Asked once."""
        copies = list(self._copies)
        self._copies.clear()
        return copies

    def find(self, sequence: Sequence) -> Hit:
        """How much of the sequence is in the cache, apart from what must be computed anyway."""
        limit = sequence.reusable if self._limits.is_causal else 0
        return self.tree.match(sequence.token_ids, limit, sequence.adapter_scales)

    @property
    def has_state_free(self) -> bool:
        """Whether one more sequence can have a recurrent state, where the model has them."""
        return self.states is None or self.states.has_free

    def cost(self, sequence: Sequence, hit: Hit) -> list[int]:
        """Per group the free blocks that this sequence takes for its tokens so far."""
        whole = hit.num_tokens % self._limits.block_size == 0
        costs = []
        for group, pool in enumerate(self.pools):
            path = hit.path[self._limits.left_behind(group, hit.num_tokens) :]
            held = sum(
                pool.holders(block) > 0 for n in path if (block := n.blocks[group]) is not None
            )
            total = self._limits.blocks(group, len(sequence.token_ids))
            costs.append(total - held + (not whole))
        return costs

    def enter(self, sequence: Sequence, hit: Hit) -> None:
        """Lets a sequence begin with what was found."""
        sequence.num_computed_tokens = hit.num_tokens
        if sequence.num_cached_tokens is None:
            sequence.num_cached_tokens = hit.num_tokens
        groups = range(len(self.pools))
        sequence.left_behind = [self._limits.left_behind(g, hit.num_tokens) for g in groups]
        sequence.block_tables = []
        for first, blocks in share(self.pools, self._limits, hit):
            sequence.block_tables.append([0] * first + blocks)
        depth = hit.num_tokens // self._limits.block_size
        root = self.tree.root(sequence.adapter_scales)
        self._place(sequence, hit.path[depth - 1] if depth else root, depth)
        if self.states is not None:
            self.states.begin(sequence, hit)

    def lacking(self, sequence: Sequence, group: int) -> int:
        """Blocks still to be allocated for the tokens that a sequence has now."""
        held = len(sequence.block_tables[group]) - sequence.left_behind[group]
        return max(0, self._limits.blocks(group, len(sequence.token_ids)) - held)

    def missing(self, sequence: Sequence, group: int, count: int) -> int:
        """Blocks that a sequence has yet to be given before `count` more tokens can be computed."""
        total = self._limits.blocks_of(sequence.num_computed_tokens + count)
        return max(0, total - len(sequence.block_tables[group]))

    def reserve(self, sequence: Sequence, count: int) -> bool:
        """Makes room to compute `count` more tokens; False when too few blocks are free."""
        if not self.make_room(sequence, count):
            return False
        if self.states is not None:
            self.states.save(sequence, count, len(self._cursors))
        return True

    def make_room(self, sequence: Sequence, count: int) -> bool:
        """Blocks of its own for `count` more tokens; False when too few are free."""
        place = sequence.num_computed_tokens // self._limits.block_size
        plan: list[tuple[int, bool]] = []
        for group, (pool, table) in enumerate(zip(self.pools, sequence.block_tables, strict=True)):
            missing = self.missing(sequence, group, count)
            copied = place < len(table) and pool.is_shared(table[place])
            if missing + copied > pool.num_free:
                if not copied or pool.holders(table[place]) > 1 or missing > pool.num_free:
                    return False
                copied = False  # only the tree shares it, and must do without
            plan.append((missing, copied))
        for group, (missing, copied) in enumerate(plan):
            pool, table = self.pools[group], sequence.block_tables[group]
            if copied:
                (target,) = pool.allocate(1)
                self._copies.append(BlockCopy(group, table[place], target))
                pool.free([table[place]])
                table[place] = target
            elif place < len(table) and pool.is_cached(table[place]):
                self.tree.forget(group, table[place])
            if missing:
                table += pool.allocate(missing)
        return True

    def advance(self, sequence: Sequence, count: int) -> None:
        """`count` tokens are computed: whole blocks go to the tree, windows move on."""
        sequence.num_computed_tokens += count
        sure = sequence.num_computed_tokens - sequence.num_draft_tokens
        if sure // self._limits.block_size > self._cursors[sequence][1]:
            self._register(sequence, sure)
        for group, pool in enumerate(self.pools):
            first = self._limits.left_behind(group, sure)
            if first > sequence.left_behind[group]:
                pool.free(sequence.block_tables[group][sequence.left_behind[group] : first])
                sequence.left_behind[group] = first

    def keep(self, sequence: Sequence) -> None:
        """Puts all that is computed into the tree while the sequence goes on."""
        if not self.has_state_free:
            return  # nothing is found without its state
        node = self._register_all(sequence)
        if self.states is not None and node is not None:
            self.states.keep(sequence, node)

    def release(self, sequence: Sequence) -> None:
        """Lets go of everything; what is computed stays in the tree until its room is needed."""
        node = self._register_all(sequence)
        if self.states is not None:
            self.states.release(sequence, node)
        for pool, table, first in zip(
            self.pools, sequence.block_tables, sequence.left_behind, strict=True
        ):
            pool.free(reversed(table[first:]))  # a path's end is evicted before its beginning
        self.tree.leave(self._cursors.pop(sequence)[0])
        sequence.block_tables, sequence.left_behind = [], []
        sequence.num_computed_tokens = 0

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Gives a child that begins with the parent's computed tokens a share in their blocks."""
        child.num_computed_tokens = parent.num_computed_tokens
        child.num_cached_tokens = parent.num_computed_tokens
        child.block_tables = [list(table) for table in parent.block_tables]
        child.left_behind = list(parent.left_behind)
        for pool, blocks in zip(self.pools, self._held(child), strict=True):
            pool.share(blocks)
        self._place(child, *self._cursors[parent])
        if self.states is not None:
            self.states.fork(parent, child)

    def rollback(self, sequence: Sequence, num_tokens: int) -> bool:
        """Takes the last computed tokens back; False when what is before them is not held.

        A recurrent state goes back to where it was saved: some tokens more have to be computed.
        """
        done = sequence.num_computed_tokens - num_tokens
        states = self.states if num_tokens else None
        if states is not None:
            saved = states.saved_within(sequence, done)
            if saved is None:
                return False
            done = saved
        for group, first in enumerate(sequence.left_behind):
            if first > self._limits.left_behind(group, done):
                return False
        if states is not None:
            states.restore(sequence)
        sequence.num_computed_tokens = done
        total = self._limits.blocks_of(done)
        for pool, table in zip(self.pools, sequence.block_tables, strict=True):
            pool.free(reversed(table[total:]))
            del table[total:]
        node, depth = self._cursors[sequence]
        while depth * self._limits.block_size > done:
            assert node.parent is not None
            node, depth = node.parent, depth - 1
        self._place(sequence, node, depth)
        return True

    def check_integrity(self, sequences: Iterable[Sequence]) -> None:
        """RuntimeError unless these sequences and the pins hold all that is held."""
        running = list(sequences)
        if set(running) != self._cursors.keys():
            raise RuntimeError("a sequence that runs holds no place in the tree, or another does")
        self.tree.check_integrity(node for node, _ in self._cursors.values())
        for group, pool in enumerate(self.pools):
            held = [self._held(s)[group] for s in running]
            pool.check_integrity(held + self.pins.blocks(group), self.tree.cached(group))
        if self.states is not None:
            self.states.check_integrity(running, self.pins.states())
        for sequence in running:
            self._check(sequence)

    def _check(self, sequence: Sequence) -> None:
        node, depth = self._cursors[sequence]
        size = self._limits.block_size
        for table in sequence.block_tables:
            if len(table) * size < sequence.num_computed_tokens:
                raise RuntimeError(f"sequence {sequence.seq_id} lacks blocks")
        while depth:
            tokens = tuple(sequence.token_ids[(depth - 1) * size : depth * size])
            if node.parent is None or node.tokens != tokens:
                raise RuntimeError(f"sequence {sequence.seq_id} is at another prefix's place")
            depth -= 1
            for block, table, first in zip(
                node.blocks, sequence.block_tables, sequence.left_behind, strict=True
            ):
                if depth >= first and table[depth] != block:
                    raise RuntimeError(f"sequence {sequence.seq_id} holds another block")
            node = node.parent

    def _held(self, sequence: Sequence) -> list[list[int]]:
        """Per group the blocks that a sequence holds."""
        pairs = zip(sequence.block_tables, sequence.left_behind, strict=True)
        return [table[first:] for table, first in pairs]

    def _place(self, sequence: Sequence, node: Node, depth: int) -> None:
        """Moves the sequence's place in the tree."""
        node.cursors += 1
        old = self._cursors.get(sequence)
        self._cursors[sequence] = node, depth
        if old is not None:
            self.tree.leave(old[0])

    def _register(self, sequence: Sequence, num_tokens: int) -> None:
        """Puts the whole blocks of the first `num_tokens` into the tree, or takes those it has."""
        if not self._limits.is_causal:
            return
        node, depth = self._cursors[sequence]
        size = self._limits.block_size
        for place in range(depth, num_tokens // size):
            tokens = sequence.token_ids[place * size : (place + 1) * size]
            child = self.tree.extend(node, tokens, self._at(sequence, place))
            if child is None:
                break
            self._place(sequence, child, place + 1)
            for pool, table, first, block in zip(
                self.pools, sequence.block_tables, sequence.left_behind, child.blocks, strict=True
            ):
                if place >= first and block is not None and block != table[place]:
                    pool.share([block])  # it has the same bits
                    pool.free([table[place]])
                    table[place] = block
            node = child

    def _register_all(self, sequence: Sequence) -> Node | None:
        """Like _register, with the partial last block; the node of all that is computed."""
        if not self._limits.is_causal:
            return None
        done, size = sequence.num_computed_tokens, self._limits.block_size
        self._register(sequence, done)
        node, depth = self._cursors[sequence]
        tail = sequence.token_ids[depth * size : done]
        if not tail:
            return node if done else None
        has_no_state = self.states is not None and sequence.state_slot is None
        if len(tail) >= size or has_no_state:  # without its state a tail is never found
            return None
        return self.tree.extend(node, tail, self._at(sequence, depth))

    def _at(self, sequence: Sequence, place: int) -> list[int | None]:
        """Per group the block of this place, None where it is left behind."""
        pairs = zip(sequence.block_tables, sequence.left_behind, strict=True)
        return [table[place] if place >= first else None for table, first in pairs]
