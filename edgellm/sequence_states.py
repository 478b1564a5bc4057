"""The recurrent states of running sequences: begun from kept ones, kept for others, taken back.

A state lies in a slot of a pool and belongs to an exact number of tokens. Knows nothing of blocks.
Plain Python.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgellm.block_pool import BlockPool
from edgellm.prefix_nodes import Hit, Node
from edgellm.prefix_tree import PrefixTree
from edgellm.sequence import BlockCopy, Sequence


@dataclass(frozen=True)
class SavedState:
    """The slot of a copy of a sequence's recurrent state after its first `num_tokens` tokens."""

    slot: int
    num_tokens: int


class SequenceStates:
    """pool: of slots, as many as sequences may run, or more. copies: where copies are asked for."""

    def __init__(
        self, pool: BlockPool, tree: PrefixTree, max_num_seqs: int, copies: list[BlockCopy]
    ) -> None:
        if pool.num_blocks < max_num_seqs:
            raise ValueError("there are fewer recurrent states than sequences in flight")
        self._pool = pool
        self._tree = tree
        self._max_num_seqs = max_num_seqs
        self._copies = copies
        self._saved: dict[Sequence, SavedState] = {}  # before the guesses computed last

    @property
    def has_free(self) -> bool:
        """Whether one more sequence, or one more copy, can have a slot."""
        return self._pool.num_free > 0

    def begin(self, sequence: Sequence, hit: Hit) -> None:
        """A slot for a sequence that goes on from what was found, or begins with nothing."""
        kept = hit.path[-1].state if hit.num_tokens else None
        sequence.state_slot = self._pool.allocate(1)[0] if kept is None else self._continue(kept)
        shared = self._tree.shared(sequence.token_ids, sequence.adapter_scales)
        sequence.parting = shared if shared > hit.num_tokens else None

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """The child begins with a copy of the parent's state."""
        child.state_slot = self._copy_of(parent)

    def keep(self, sequence: Sequence, node: Node) -> None:
        """Leaves the state in the tree, at the node of all that is computed of a sequence."""
        if sequence.state_slot is None:
            return
        if node.state is not None:
            self._pool.touch(node.state)
        else:
            self._tree.keep_state(node, self._copy_of(sequence))

    def release(self, sequence: Sequence, node: Node | None) -> None:
        """Lets go of a sequence's slots. node: that of all that is computed of it, if any."""
        self._forget_saved(sequence)
        if node is not None and sequence.state_slot is not None:
            self._tree.keep_state(node, sequence.state_slot)
            sequence.state_slot = None
        self.forget(sequence)

    def forget(self, sequence: Sequence) -> None:
        """The state is that of no tokens that anybody could begin with."""
        if sequence.state_slot is not None:
            self._pool.free([sequence.state_slot])
            sequence.state_slot = None

    def save(self, sequence: Sequence, count: int, num_running: int) -> None:
        """Saves the state before guesses among the next `count` tokens.

        Not where a sequence that may yet begin would find no slot.
        """
        self._forget_saved(sequence)
        done = sequence.num_computed_tokens
        guesses = done + count > len(sequence.token_ids) - sequence.num_draft_tokens
        if guesses and self._pool.num_free > self._max_num_seqs - num_running:
            self._saved[sequence] = SavedState(self._copy_of(sequence), done)

    def saved_within(self, sequence: Sequence, num_tokens: int) -> int | None:
        """After how many of the first `num_tokens` tokens a state is saved; None: after none."""
        saved = self._saved.get(sequence)
        return None if saved is None or saved.num_tokens > num_tokens else saved.num_tokens

    def restore(self, sequence: Sequence) -> None:
        """The saved state is the sequence's again."""
        assert sequence.state_slot is not None
        self._pool.free([sequence.state_slot])
        sequence.state_slot = self._saved.pop(sequence).slot

    def check_integrity(self, running: Seq[Sequence], pinned: list[int | None]) -> None:
        """RuntimeError unless these sequences and pins hold all that is held."""
        if self._saved.keys() - set(running):
            raise RuntimeError("a state is saved of a sequence that does not run")
        owners = [s.state_slot for s in running] + pinned
        owners += [saved.slot for saved in self._saved.values()]
        slots = [[slot] for slot in owners if slot is not None]
        self._pool.check_integrity(slots, self._tree.cached_states())

    def _copy_of(self, sequence: Sequence) -> int:
        """A slot that the state will be copied to."""
        assert sequence.state_slot is not None
        (slot,) = self._pool.allocate(1)
        self._copies.append(BlockCopy(None, sequence.state_slot, slot))
        return slot

    def _continue(self, kept: int) -> int:
        """A slot with a kept state: a copy, or that one where no other is free."""
        self._pool.share([kept])  # or it might be evicted now
        if not self._pool.num_free:
            self._tree.forget_state(kept)
            return kept
        (slot,) = self._pool.allocate(1)
        self._copies.append(BlockCopy(None, kept, slot))
        self._pool.free([kept])
        return slot

    def _forget_saved(self, sequence: Sequence) -> None:
        saved = self._saved.pop(sequence, None)
        if saved is not None:
            self._pool.free([saved.slot])
