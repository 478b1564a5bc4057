"""Plays engine and storage for the scheduler, without any model. Holds no tests."""

from dataclasses import replace

from edgellm.block_pool import BlockPool
from edgellm.limits import Limits
from edgellm.pins import Pin
from edgellm.scheduler import Scheduler
from edgellm.sequence import Chunk, Sequence
from edgellm.step_cost import StepCost
from edgellm.types import SamplingParams

WINDOW = 6


def make(
    num_blocks: int = 64,
    context_length: int = 40,
    max_num_seqs: int = 4,
    token_budget: int = 8,
    max_logits_rows: int = 3,
    windows: tuple[int | None, ...] = (None, WINDOW),
    num_states: int | None = None,
) -> Scheduler:
    limits = Limits(context_length, max_num_seqs, 4, token_budget, max_logits_rows, windows)
    states = None if num_states is None else BlockPool(num_states)
    return Scheduler(tuple(BlockPool(num_blocks) for _ in windows), limits, states)


def sequence(
    seq_id: int,
    num_tokens: int,
    score_from: int | None = None,
    token_ids: list[int] | None = None,
) -> Sequence:
    """Tokens that no other sequence has, unless told which."""
    tokens = list(token_ids or range(100 * seq_id, 100 * seq_id + num_tokens))
    return Sequence(tokens, len(tokens), SamplingParams(), score_from=score_from, seq_id=seq_id)


def counts(chunks: list[Chunk]) -> dict[int, tuple[int, str]]:
    """How many tokens of each sequence a step computes, and which logits."""
    return {chunk.sequence.seq_id: (chunk.count, chunk.logits) for chunk in chunks}


class Stingy(StepCost):
    """Lets two prompt tokens in beside every fourth step of decodes."""

    asked = 0

    def prefill_tokens(self, decode_rows: int, wanted: int, depth: float) -> int:
        self.asked += 1
        return 2 if self.asked % 4 == 0 or not decode_rows else 0


Prefix = tuple[tuple[float, ...], tuple[int, ...]]  # scales of adapters, tokens
Contents = list[Prefix | None]  # of all slots of a pin, in order


def prefix_of(seq: Sequence, count: int) -> Prefix:
    """What its first tokens are computed to, which depends on the adapters it takes."""
    return seq.adapter_scales, tuple(seq.token_ids[:count])


class Driver:
    """Plays engine: every sequence samples `answers[seq_id]` tokens, or is scored.

    next_token: what is sampled after a sequence's tokens. written: for each slot that was ever
    written, the prefix whose last token it stores, which is all that a query may depend on;
    `states` the same for recurrent states.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.answers: dict[int, int] = {}
        self.scored: dict[int, list[int]] = {}
        self.finished: set[int] = set()
        self.num_preempted = 0
        self.written: dict[tuple[int, int, int], Prefix | None] = {}
        self.states: dict[int, Prefix | None] = {}

    def next_token(self, seq: Sequence) -> int:
        return 0

    def add(self, seq: Sequence, answer: int = 0) -> None:
        self.scheduler.add(seq)
        self.answers[seq.seq_id] = answer
        self.scored[seq.seq_id] = []

    def step(self, draws: int = 1) -> list[Chunk]:
        """draws: so many tokens of each sequence are drawn in one call, where that can be."""
        before = set(self.scheduler.running)
        chunks = self.scheduler.schedule()
        self.scheduler.check_integrity()
        self.check_preempted(before - set(self.scheduler.running))
        drafts = sum(chunk.sequence.num_draft_tokens for chunk in chunks)
        assert sum(chunk.count for chunk in chunks) <= self.scheduler.limits.token_budget + drafts
        assert len({chunk.sequence for chunk in chunks}) == len(chunks)
        draws = self.drawable(chunks, draws)
        self.run_copies()
        if draws > 1:
            for chunk in chunks:
                self.draw(chunk, draws)
        else:
            self.compute(chunks)
            self.scheduler.commit(chunks)
            for chunk in chunks:
                self.sample(chunk)
        self.scheduler.check_integrity()
        return chunks

    def drawable(self, chunks: list[Chunk], most: int) -> int:
        """How many tokens of each can be drawn in one call."""
        if not all(chunk.is_decode and chunk.logits == "last" for chunk in chunks):
            return 1
        limits = self.scheduler.limits
        rooms = [limits.context_length - len(chunk.sequence.token_ids) for chunk in chunks]
        most = min([most, *rooms])
        return most if most > 1 and self.scheduler.make_room(chunks, most) else 1

    def draw(self, chunk: Chunk, count: int) -> None:
        """Computes and samples `count` tokens, those behind the answer's end for nothing."""
        seq, length = chunk.sequence, len(chunk.sequence.token_ids)
        for _ in range(count):
            seq.token_ids.append(self.next_token(seq))
        self.compute([replace(chunk, count=count)])
        taken = min(count, self.answers[seq.seq_id] - (length - seq.num_prompt_tokens))
        del seq.token_ids[length + taken :]
        if taken < count:
            self.scheduler.forget_state(seq)
        self.scheduler.commit([replace(chunk, count=taken)])
        if len(seq.token_ids) - seq.num_prompt_tokens == self.answers[seq.seq_id]:
            self.finish(seq)

    def check_preempted(self, preempted: set[Sequence]) -> None:
        """None had to go for one that comes after it, unless it waits for what another computes."""
        scheduler = self.scheduler
        self.num_preempted += len(preempted)
        for seq in preempted:
            newer = [r for r in scheduler.running if (r.turn, r.seq_id) > (seq.turn, seq.seq_id)]
            assert not newer or scheduler._is_held(seq, scheduler.tables.find(seq))

    def run_copies(self) -> None:
        for copy in self.scheduler.take_copies():
            if copy.group is None:
                self.states[copy.target] = self.states.get(copy.source)
                continue
            for offset in range(self.scheduler.limits.block_size):
                source = self.written.get((copy.group, copy.source, offset))
                self.written[copy.group, copy.target, offset] = source

    def contents(self, pin: Pin) -> Contents:
        """What is stored in the blocks of a pin."""
        slots = [self.written.get(slot) for slot in self.slots(pin)]
        return slots if pin.state is None else [*slots, self.states.get(pin.state)]

    def fill(self, pin: Pin, contents: Contents) -> None:
        """Stores what `contents` gave of another pin."""
        self.written |= dict(zip(self.slots(pin), contents, strict=False))
        if pin.state is not None:
            self.states[pin.state] = contents[-1]

    def slots(self, pin: Pin) -> list[tuple[int, int, int]]:
        size = self.scheduler.limits.block_size
        places = [(g, block) for g, blocks in enumerate(pin.blocks) for block in blocks]
        return [(g, block, offset) for g, block in places for offset in range(size)]

    def compute(self, chunks: list[Chunk]) -> None:
        """Every position that a query sees stores what this very prefix was computed to."""
        limits = self.scheduler.limits
        for chunk in chunks:
            seq, first = chunk.sequence, chunk.sequence.num_computed_tokens
            for group in range(len(limits.windows)):
                table = seq.block_tables[group]
                for position in range(first, first + chunk.count):
                    block, offset = divmod(position, limits.block_size)
                    prefix = prefix_of(seq, position + 1)
                    self.written[group, table[block], offset] = prefix
        for chunk in chunks:
            seq, first = chunk.sequence, chunk.sequence.num_computed_tokens
            for group, window in enumerate(limits.windows):
                table = seq.block_tables[group]
                oldest = 0 if window is None else max(0, first - window + 1)
                for position in range(oldest, first + chunk.count):
                    block, offset = divmod(position, limits.block_size)
                    prefix = prefix_of(seq, position + 1)
                    assert self.written[group, table[block], offset] == prefix
            if seq.state_slot is not None:
                if first:  # a state at the beginning is fresh
                    assert self.states[seq.state_slot] == prefix_of(seq, first)
                self.states[seq.state_slot] = prefix_of(seq, first + chunk.count)

    def sample(self, chunk: Chunk) -> None:
        seq = chunk.sequence
        if chunk.logits == "none":
            return
        done = seq.num_computed_tokens
        if seq.score_from is not None:
            assert chunk.logits == "all"
            assert chunk.count <= self.scheduler.limits.max_logits_rows
            self.scored[seq.seq_id] += range(done - chunk.count, done)
            if done == len(seq.token_ids):
                self.finish(seq)
            return
        assert done == len(seq.token_ids)
        assert chunk.logits == ("all" if seq.num_draft_tokens else "last")
        self.take(seq)

    def take(self, seq: Sequence) -> None:
        """Samples one token; guesses of which the first is wrong are taken back."""
        if seq.num_draft_tokens:
            self.scheduler.rollback(seq, seq.num_draft_tokens)
        seq.token_ids.append(self.next_token(seq))
        if len(seq.token_ids) - seq.num_prompt_tokens >= self.answers[seq.seq_id]:
            self.finish(seq)

    def finish(self, seq: Sequence) -> None:
        self.scheduler.finish(seq)
        self.finished.add(seq.seq_id)

    def run(self, most: int = 2000) -> int:
        for steps in range(most):
            if not self.scheduler.has_work:
                return steps
            assert self.step(), "work, and nothing planned"
        raise AssertionError(f"not finished after {most} steps")


class Answering(Driver):
    """Samples what depends on the tokens before and on the answer's number."""

    def next_token(self, seq: Sequence) -> int:
        return (sum(seq.token_ids) + len(seq.token_ids) * seq.sample_index) % 2
