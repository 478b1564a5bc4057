"""Which sequences the next step computes, how many tokens of each, and in which blocks.

How many tokens `shares` says. Blocks that run out are taken from the newest sequences, which are
computed again later (preempted), apart from what the cache still has of them. An older sequence
never waits for a newer one, so each one comes to its end. One that begins with what an older one is
computing waits for that, if it saves at least half of its own work. A background sequence counts as
one that came BACKGROUND_DELAY steps later: it waits for others, but not for ever. Knows nothing of
tensors, text or models. Plain Python.
"""

from bisect import insort
from collections.abc import Iterable

from edgellm.block_pool import BlockPool
from edgellm.block_tables import BlockTables
from edgellm.errors import ContextOverflow, RequestError
from edgellm.limits import Limits
from edgellm.prefix_nodes import Hit
from edgellm.sequence import BlockCopy, Chunk, LogitsRows, Sequence
from edgellm.shared_prefix import promised
from edgellm.shares import parted, prefill_tokens, shares
from edgellm.step_cost import StepCost, Work

BACKGROUND_DELAY = 10_000  # steps


class Scheduler:
    """Sequences waiting and running, each in the order in which they are served.

    states: the pool of recurrent states, of models that have one. cost: chooses how much prefill
    a step takes; None always fills the token budget.
    """

    def __init__(
        self,
        pools: tuple[BlockPool, ...],
        limits: Limits,
        states: BlockPool | None = None,
        cost: StepCost | None = None,
    ) -> None:
        self.limits = limits
        self.tables = BlockTables(pools, limits, states)
        self.cost = cost
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self._steps = 0

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
        sequence.turn = self._steps + BACKGROUND_DELAY * sequence.is_background
        insort(self.waiting, sequence, key=_order)

    def finish(self, sequence: Sequence) -> None:
        """Forgets a sequence, at whatever point it is; the cache keeps what it computed."""
        if sequence in self.running:
            self.running.remove(sequence)
            prompt = sequence.token_ids[: sequence.num_prompt_tokens]
            is_computed = sequence.num_computed_tokens >= len(prompt)
            self.tables.release(sequence)
            if sequence.keeps_prompt and is_computed:
                self.tables.pins.keep(prompt, sequence.adapter_scales)
        else:
            self.waiting.remove(sequence)

    def forget_state(self, sequence: Sequence) -> None:
        """Lets go of a recurrent state that is not that of the computed tokens, before `finish`."""
        if self.tables.states is not None:
            self.tables.states.forget(sequence)

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Adds a child that begins with the parent's computed tokens, without computing them again.

        It shares the parent's blocks, and its turn. Where no more sequences may run it waits, and
        finds the blocks in the cache; it must then have a token after them before the next step.
        """
        child.turn = parent.turn
        has_room = len(self.running) < self.limits.max_num_seqs and self.tables.has_state_free
        if parent in self.running and has_room:
            self.tables.fork(parent, child)
            insort(self.running, child, key=_order)
            return
        if parent in self.running:
            self.tables.keep(parent)
        insort(self.waiting, child, key=_order)

    def rollback(self, sequence: Sequence, num_tokens: int) -> None:
        """Takes the last `num_tokens` tokens of a sequence back, and what is computed of them.

        For guesses that were wrong, this is cheap. Further back it may have to compute again.
        """
        length = len(sequence.token_ids) - num_tokens
        if not 0 < length <= len(sequence.token_ids):
            raise ValueError(f"{num_tokens} of {len(sequence.token_ids)} tokens to take back")
        computed = max(0, sequence.num_computed_tokens - length)
        if computed and not self.tables.rollback(sequence, computed):
            self._preempt(sequence)
        del sequence.token_ids[length:]
        sequence.num_draft_tokens = 0

    def settle(self, sequence: Sequence, drafts: list[int]) -> None:
        """Takes back what was computed of wrong guesses.

        drafts: those withdrawn from a sequence which was computed with them, and has since got the
        tokens that its model drew.
        """
        sure = sequence.num_computed_tokens - len(drafts)
        drawn = sequence.token_ids[sure:]
        right = next(
            (i for i, (a, b) in enumerate(zip(drafts, drawn, strict=False)) if a != b),
            min(len(drafts), len(drawn)),
        )
        sequence.token_ids[sure:] = drafts
        self.rollback(sequence, len(drafts) - right)
        sequence.token_ids += drawn[right:]

    def draftable(self, most: int) -> list[Sequence]:
        """The sequences that decode in the next step, where each has room for `most` guesses.

        None where prompts are computed beside them, which guesses would delay, or where guesses
        would take another sequence's blocks.
        """
        decodes, prefills = parted(self.running)
        if prefills and (self.cost is None or prefill_tokens(self.cost, len(decodes), prefills)):
            return []
        each = self.limits.blocks_of(most) + 2
        has_room = all(pool.num_free >= each * len(self.running) for pool in self.tables.pools)
        return decodes if has_room else []

    def schedule(self) -> list[Chunk]:
        """The chunks of the next step; their blocks are in the sequences' tables.

        None where all that may run must wait until pinned blocks are let go.
        """
        self._steps += 1
        self._admit()
        planned = self._plan(is_alone=False)
        if not planned:  # no block for the decodes that prefill was to wait for
            planned = self._plan(is_alone=True)
        if not planned and self.has_work and self.tables.pins.is_empty:
            raise RuntimeError("there is work, and no step can be planned")
        return planned

    def make_room(self, chunks: list[Chunk], count: int) -> bool:
        """Gives each of these room for `count` tokens where that leaves every one a block."""
        for group, pool in enumerate(self.tables.pools):
            due = sum(self.tables.missing(chunk.sequence, group, count) for chunk in chunks)
            if due + len(self.running) > pool.num_free:
                return False
        return all(self.tables.make_room(chunk.sequence, count) for chunk in chunks)

    def decode_seconds(self, rows: int) -> float:
        """What a step takes that decodes so many rows; 0 unknown."""
        return 0.0 if self.cost is None else self.cost.decode_seconds(rows)

    def take_copies(self) -> list[BlockCopy]:
        """Blocks to be copied, in this order, before the step that was planned last runs."""
        return self.tables.take_copies()

    def commit(self, chunks: Iterable[Chunk]) -> None:
        """Records that these chunks are computed; others may find them in the cache from now on."""
        for chunk in chunks:
            self.tables.advance(chunk.sequence, chunk.count)
            done = chunk.sequence.num_computed_tokens
            if self.tables.states is not None and done in chunk.sequence.checkpoints:
                self.tables.keep(chunk.sequence)

    def observe(self, work: Work, seconds: float) -> None:
        """Says how long a step took."""
        if self.cost is not None:
            self.cost.observe(work, seconds)

    def check_integrity(self) -> None:
        """RuntimeError unless queues, tables, tree and pools agree."""
        for queue in (self.running, self.waiting):
            orders = [_order(sequence) for sequence in queue]
            if orders != sorted(set(orders)):
                raise RuntimeError(f"sequences are out of order: {orders}")
        if set(self.running) & set(self.waiting):
            raise RuntimeError("a sequence runs and waits")
        if len(self.running) > self.limits.max_num_seqs:
            raise RuntimeError(f"{len(self.running)} sequences are running")
        for sequence in self.waiting:
            held = any(sequence.block_tables) or sequence.state_slot is not None
            if held or sequence.num_computed_tokens:
                raise RuntimeError(f"sequence {sequence.seq_id} waits and holds blocks")
        self.tables.check_integrity(self.running)

    def _admit(self) -> None:
        """Lets waiting sequences in, in order, while all of their tokens so far will fit.

        Those that are held keep their places free.
        """
        held = 0
        while held < len(self.waiting):
            candidate = self.waiting[held]
            is_full = len(self.running) + held >= self.limits.max_num_seqs
            if is_full and (held or _order(self.running[-1]) < _order(candidate)):
                return
            hit = self.tables.find(candidate)
            if self._is_held(candidate, hit):
                held += 1
                continue
            while not self._has_room(candidate, hit):
                if not self.running or _order(self.running[-1]) < _order(candidate):
                    return
                self._preempt(self.running[-1])
                hit = self.tables.find(candidate)  # what that one left may have replaced it
            self.tables.enter(candidate, hit)
            self.waiting.remove(candidate)
            insort(self.running, candidate, key=_order)

    def _is_held(self, candidate: Sequence, hit: Hit) -> bool:
        """Whether an older sequence is about to compute most of what this one would."""
        has_states, left = self.tables.states is not None, len(candidate.token_ids) - hit.num_tokens
        return any(
            2 * (promised(older, candidate, self.limits, has_states) - hit.num_tokens) >= left
            for older in self.running
            if _order(older) < _order(candidate)
        )

    def _has_room(self, candidate: Sequence, hit: Hit) -> bool:
        if not self.tables.has_state_free:
            return False
        if not self.running:
            return True
        if len(self.running) == self.limits.max_num_seqs:
            return False
        costs = self.tables.cost(candidate, hit)
        for group, (pool, cost) in enumerate(zip(self.tables.pools, costs, strict=True)):
            due = sum(self.tables.lacking(s, group) for s in self.running)
            # One block more per running sequence, or it would soon be preempted again.
            if due + cost + len(self.running) > pool.num_free:
                return False
        return True

    def _plan(self, is_alone: bool) -> list[Chunk]:
        """A chunk for each share that can be used, within the rows of logits of a step.

        is_alone: no decode can run, so that prefill has no reason to wait.
        """
        planned: dict[Sequence, Chunk] = {}
        rows = self.limits.max_logits_rows
        for sequence, share in shares(self.running, self.limits, self.cost, is_alone):
            if sequence not in self.running:
                continue  # preempted for an older one
            count, logits = self._cut(sequence, share, rows)
            if count and self._reserve(sequence, count, planned):
                planned[sequence] = Chunk(sequence, count, logits, sequence.is_decode)
                rows -= count if sequence.score_from is not None and logits == "all" else 0
        return list(planned.values())

    def _cut(self, sequence: Sequence, share: int, rows: int) -> tuple[int, LogitsRows]:
        """How much of its share a sequence can use in one chunk, and which logits that needs."""
        done, remaining = sequence.num_computed_tokens, sequence.num_remaining_tokens
        if sequence.wants_hidden:
            return min(share, remaining), "none"
        if sequence.score_from is not None:
            if done < sequence.score_from:
                return min(share, remaining, sequence.score_from - done), "none"
            return min(share, remaining, rows), "all"
        if sequence.is_decode:
            return remaining, "all" if sequence.num_draft_tokens else "last"
        if sequence.num_draft_tokens:
            return min(share, remaining - 1 - sequence.num_draft_tokens), "none"
        if self.tables.states is not None:
            share = min([share, *(end - done for end in sequence.checkpoints if end > done)])
        return min(share, remaining), "last" if share >= remaining else "none"

    def _reserve(self, sequence: Sequence, count: int, planned: dict[Sequence, Chunk]) -> bool:
        """Gives `sequence` the blocks for `count` more tokens, preempting newer ones if need be."""
        while not self.tables.reserve(sequence, count):
            newest = self.running[-1]
            if newest is sequence:
                if len(self.running) == 1 and self.tables.pins.is_empty:
                    raise RuntimeError(f"sequence {sequence.seq_id} outgrew its context")
                return False
            planned.pop(newest, None)
            self._preempt(newest)
        return True

    def _preempt(self, sequence: Sequence) -> None:
        if sequence.score_from is not None:  # what is reported stays reported
            sequence.score_from = max(sequence.score_from, sequence.num_computed_tokens)
        self.running.remove(sequence)
        self.tables.release(sequence)
        insort(self.waiting, sequence, key=_order)


def _order(sequence: Sequence) -> tuple[int, int]:
    return sequence.turn, sequence.seq_id
