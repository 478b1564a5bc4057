"""Which sequences the next step computes, how many tokens of each, and in which blocks.

Decode first; then prefill in chunks within a token budget: the oldest prefill is sure of half of
it, the shortest come first in the rest. Blocks that run out are taken from the newest sequences,
which are computed again later (preempted). An older sequence never waits for a newer one, so each
one comes to its end. Knows nothing of tensors, text or models. Plain Python.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from edgellm.block_pool import BlockPool
from edgellm.errors import ContextOverflow, RequestError
from edgellm.sequence import Chunk, LogitsRows, Sequence


@dataclass(frozen=True)
class Limits:
    """What one step and one sequence may use.

    context_length: tokens of a sequence. max_num_seqs: sequences in flight. block_size: tokens
    per block. token_budget: rows per step. max_logits_rows: rows of logits that scoring may ask
    of one step. windows: per KV group the keys a query sees, itself included; None is all.
    """

    context_length: int
    max_num_seqs: int
    block_size: int
    token_budget: int
    max_logits_rows: int
    windows: tuple[int | None, ...]

    def __post_init__(self) -> None:
        if self.token_budget <= self.max_num_seqs:
            raise ValueError("a step's token budget must leave room beside one token per sequence")

    def blocks(self, group: int, num_tokens: int) -> int:
        """The most blocks that a sequence of `num_tokens` holds at once in this group."""
        window = self.windows[group]
        # A window and a chunk need not begin at a block's start: hence one block more for each.
        whole = _ceil(num_tokens, self.block_size)
        if window is None:
            return whole
        return min(whole, _ceil(window + self.token_budget, self.block_size) + 1)

    def left_behind(self, group: int, num_computed_tokens: int) -> int:
        """How many leading blocks no query from this position on can see."""
        window = self.windows[group]
        if window is None:
            return 0
        return max(0, num_computed_tokens - window + 1) // self.block_size


class Scheduler:
    """Sequences waiting and running, in order of arrival, and the blocks they hold."""

    def __init__(self, pools: tuple[BlockPool, ...], limits: Limits) -> None:
        for group, pool in enumerate(pools):
            if pool.num_blocks < limits.blocks(group, limits.context_length):
                raise ValueError(f"the pool of group {group} does not hold one whole context")
        self.pools = pools
        self.limits = limits
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._free_slots = list(range(limits.max_num_seqs))[::-1]

    @property
    def has_work(self) -> bool:
        return bool(self.running or self.waiting)

    def add(self, sequence: Sequence) -> None:
        """Queues a sequence. RequestError when it is empty, ContextOverflow when too long."""
        room = self.limits.context_length - (sequence.score_from is None)  # room for an answer
        if not sequence.token_ids:
            raise RequestError("the prompt is empty: give at least one token", field="prompt")
        if len(sequence.token_ids) > room:
            raise ContextOverflow(len(sequence.token_ids), self.limits.context_length)
        self.waiting.append(sequence)

    def finish(self, sequence: Sequence) -> None:
        """Forgets a sequence, at whatever point it is, and frees its blocks."""
        if sequence in self.running:
            self.running.remove(sequence)
            self._release(sequence)
        else:
            self.waiting.remove(sequence)

    def schedule(self) -> list[Chunk]:
        """The chunks of the next step; their blocks are in the sequences' tables."""
        self._admit()
        planned: dict[Sequence, Chunk] = {}
        decodes = [s for s in self.running if _remaining(s) == 1]
        prefills = [s for s in self.running if _remaining(s) > 1]
        rows = self.limits.max_logits_rows
        shares = [(s, 1) for s in decodes]
        shares += _share_out(self.limits.token_budget - len(decodes), prefills)
        for sequence, share in shares:
            if sequence not in self.running:
                continue  # preempted for an older one
            count, logits = _cut(sequence, share, rows)
            if count and self._reserve(sequence, count, planned):
                planned[sequence] = Chunk(sequence, count, logits)
                rows -= count if logits == "all" else 0
        return list(planned.values())

    def commit(self, chunks: Iterable[Chunk]) -> None:
        """Records that these chunks are computed; frees the blocks that windows leave behind."""
        for chunk in chunks:
            sequence = chunk.sequence
            before = sequence.num_computed_tokens
            sequence.num_computed_tokens += chunk.count
            for group, pool in enumerate(self.pools):
                first = self.limits.left_behind(group, before)
                last = self.limits.left_behind(group, sequence.num_computed_tokens)
                pool.free(sequence.block_tables[group][first:last])

    def check_integrity(self) -> None:
        """RuntimeError unless queues, tables and pools agree."""
        arrivals = [s.seq_id for s in (*self.running, *self.waiting)]
        if arrivals != sorted(set(arrivals)):
            raise RuntimeError(f"sequences are out of order: {arrivals}")
        if len(self.running) > self.limits.max_num_seqs:
            raise RuntimeError(f"{len(self.running)} sequences are running")
        for sequence in self.waiting:
            held = any(sequence.block_tables) or sequence.state_slot is not None
            if held or sequence.num_computed_tokens:
                raise RuntimeError(f"sequence {sequence.seq_id} waits and holds blocks")
        slots = [*self._free_slots, *(s.state_slot for s in self.running)]
        if set(slots) != set(range(self.limits.max_num_seqs)) or len(slots) != len(set(slots)):
            raise RuntimeError(f"state slots are lost or shared: {slots}")
        for group, pool in enumerate(self.pools):
            pool.check_integrity(self._held(s, group) for s in self.running)
            for sequence in self.running:
                covered = len(sequence.block_tables[group]) * self.limits.block_size
                if covered < sequence.num_computed_tokens:
                    raise RuntimeError(f"sequence {sequence.seq_id} lacks blocks")

    def _admit(self) -> None:
        """Lets waiting sequences in, in order, while all of their tokens so far will fit."""
        while self.waiting and len(self.running) < self.limits.max_num_seqs:
            candidate = self.waiting[0]
            for group, pool in enumerate(self.pools):
                promised = sum(self._lacking(s, group) for s in self.running)
                # One block more per running sequence, or it would soon be preempted again.
                wanted = self._lacking(candidate, group) + len(self.running)
                if promised + wanted > pool.num_free:
                    return
            candidate.block_tables = [[] for _ in self.pools]
            candidate.state_slot = self._free_slots.pop()
            self.running.append(self.waiting.popleft())

    def _reserve(self, sequence: Sequence, count: int, planned: dict[Sequence, Chunk]) -> bool:
        """Gives `sequence` the blocks for `count` more tokens, preempting newer ones if need be."""
        blocks = _ceil(sequence.num_computed_tokens + count, self.limits.block_size)
        missing = [max(0, blocks - len(table)) for table in sequence.block_tables]
        while any(n > p.num_free for n, p in zip(missing, self.pools, strict=True)):
            newest = self.running[-1]
            if newest is sequence:
                if len(self.running) == 1:
                    raise RuntimeError(f"sequence {sequence.seq_id} outgrew its context")
                return False
            planned.pop(newest, None)
            self._preempt(newest)
        for n, pool, table in zip(missing, self.pools, sequence.block_tables, strict=True):
            table += pool.allocate(n)
        return True

    def _preempt(self, sequence: Sequence) -> None:
        if sequence.score_from is not None:  # what is reported stays reported
            sequence.score_from = max(sequence.score_from, sequence.num_computed_tokens)
        self.running.remove(sequence)
        self._release(sequence)
        self.waiting.appendleft(sequence)

    def _release(self, sequence: Sequence) -> None:
        for group, pool in enumerate(self.pools):
            pool.free(self._held(sequence, group))
        sequence.block_tables = []
        sequence.num_computed_tokens = 0
        assert sequence.state_slot is not None
        self._free_slots.append(sequence.state_slot)
        sequence.state_slot = None

    def _held(self, sequence: Sequence, group: int) -> list[int]:
        first = self.limits.left_behind(group, sequence.num_computed_tokens)
        return sequence.block_tables[group][first:]

    def _lacking(self, sequence: Sequence, group: int) -> int:
        """Blocks still to be allocated for the tokens that the sequence has now."""
        held = len(self._held(sequence, group)) if sequence.block_tables else 0
        return max(0, self.limits.blocks(group, len(sequence.token_ids)) - held)


def _remaining(sequence: Sequence) -> int:
    return len(sequence.token_ids) - sequence.num_computed_tokens


def _share_out(budget: int, prefills: list[Sequence]) -> list[tuple[Sequence, int]]:
    """Half of the budget for the oldest, the rest for the shortest first."""
    if not prefills:
        return []
    oldest, *others = prefills
    left = budget - min(_remaining(oldest), (budget + 1) // 2)
    shares = []
    for sequence in sorted(others, key=_remaining):
        share = min(left, _remaining(sequence))
        left -= share
        shares.append((sequence, share))
    return [(oldest, budget - sum(share for _, share in shares)), *shares]


def _cut(sequence: Sequence, share: int, rows: int) -> tuple[int, LogitsRows]:
    """How much of its share a sequence can use in one chunk, and which logits that needs."""
    done, remaining = sequence.num_computed_tokens, _remaining(sequence)
    if sequence.score_from is None:
        return min(share, remaining), "last" if share >= remaining else "none"
    if done < sequence.score_from:
        return min(share, remaining, sequence.score_from - done), "none"
    return min(share, remaining, rows), "all"


def _ceil(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)
