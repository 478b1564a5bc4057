"""The step loop: plan, pack, run, commit, and hand the logits to those who wait for them.

An Engine drives one loaded model and belongs to one thread. A request can fail; the engine lives
on. Knows nothing of models, formats, devices or threads.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence as Seq
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Protocol

from edgellm import consumers
from edgellm.consumer import Consumer, Rows
from edgellm.consumers import Consumers
from edgellm.errors import DeviceLost
from edgellm.guessing import Guessing, Speculator
from edgellm.kernels.batch import Batch
from edgellm.kernels.draw import Draws
from edgellm.model_runner import BlockStore
from edgellm.multi_step import plan_draws
from edgellm.pins import Pin
from edgellm.prefix_nodes import Scales
from edgellm.scheduler import Scheduler
from edgellm.sequence import BlockCopy, Chunk, Sequence
from edgellm.shares import work_of
from edgellm.step_cost import Work
from edgellm.types import Stats


class Runner(Protocol):
    """What the engine needs of a ModelRunner."""

    @property
    def store(self) -> BlockStore: ...

    def copy(self, copies: Iterable[BlockCopy]) -> None: ...

    def pack(self, chunks: list[Chunk]) -> Batch: ...

    def run(self, batch: Batch) -> Mapping[str, Rows]: ...

    @property
    def can_draw(self) -> bool: ...

    def draw(self, batch: Batch, draws: Draws) -> list[list[int]]: ...

    def close(self) -> None: ...


class Engine:
    """One model's sequences, each with the consumer of its logits.

    speculation: guesses tokens; None computes one of each answer per step. clock: seconds.
    """

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        speculation: Speculator | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._runner = runner
        self._scheduler = scheduler
        self._guessing = Guessing(speculation)
        self._clock = clock
        self._consumers = Consumers()
        self._seq_ids = count()
        self._waits_for_pins = False
        self._is_closed = False
        self.is_lost = False  # whether what the backend held is gone, and no step succeeds
        self.last_worked = 0.0  # when the last step ended, on the clock of time.monotonic
        self._steps = 0
        self._tokens_computed = 0
        self._tokens_generated = 0

    @property
    def has_work(self) -> bool:
        return self._scheduler.has_work

    @property
    def can_step(self) -> bool:
        """Whether there is work that need not wait for pinned blocks."""
        return self.has_work and not self._waits_for_pins

    def add(self, consumer: Consumer, *followers: Consumer) -> None:
        """Queues the consumer's sequence; one that cannot run makes the consumer fail.

        followers: want the same prompt answered, and begin as forks when it is computed. Who comes
        when the engine is closed already is aborted like those that were there.
        """
        if self._is_closed:
            consumers.abort([consumer, *followers])
            return
        sequence = consumer.sequence
        sequence.seq_id = next(self._seq_ids)
        self._consumers.enter(consumer, followers)
        try:
            self._scheduler.add(sequence)
        except Exception as error:
            consumers.fail(self._leave(sequence), error)

    def abort(self, request_id: str) -> None:
        """Ends every sequence of this request; an unknown id is no error, it may just be over."""
        self._waits_for_pins = False
        consumers.abort(self._consumers.leave_request(request_id))
        self._abort(self._consumers.of_request(request_id))

    def clear_cache(self) -> None:
        """Forgets what was computed before, kept or not; what runs goes on."""
        self._scheduler.tables.pins.forget_kept()
        self._scheduler.tables.tree.clear()

    @property
    def store(self) -> BlockStore:
        """Where blocks lie. Those of a pin may be read in any thread."""
        return self._runner.store

    @property
    def most_kept_tokens(self) -> int:
        """Tokens of the longest prompt that the cache can be asked to keep. Any thread may ask."""
        return self._scheduler.tables.pins.most_kept_tokens

    def pin(self, ids: Seq[int], scales: Scales) -> Pin:
        """Holds what the cache has of these tokens, as it is now, until it is unpinned."""
        self._copy()
        return self._scheduler.tables.pins.pin(ids, scales)

    def unpin(self, pin: Pin) -> None:
        """Lets go of a prefix, which may be evicted from now on."""
        self._waits_for_pins = False
        self._scheduler.tables.pins.unpin(pin)

    def make_room(self, ids: Seq[int], scales: Scales) -> Pin | None:
        """Blocks to be filled for a prefix; None when the cache has too few to spare."""
        self._copy()
        return self._scheduler.tables.pins.make_room(ids, scales)

    def adopt(self, pin: Pin) -> None:
        """The blocks are filled: they are found from now on."""
        self._scheduler.tables.pins.adopt(pin)

    def step(self) -> None:
        """Computes one batch, and steps after it where nobody needs to see its logits.

        Whatever goes wrong is told to the consumers it concerns.
        """
        chunks: list[Chunk] = []
        drafted = self._guessing.draft(self._scheduler, self._consumers)
        begun = self._clock()
        try:
            chunks = self._scheduler.schedule()
            left_out = drafted.difference(chunk.sequence for chunk in chunks)
            self._guessing.withdraw(self._scheduler, left_out)
            draws = self._plan_draws(chunks)
            self._copy()
            self._waits_for_pins = not chunks
            if not chunks:
                return
            work = work_of(chunks)
            batch = self._runner.pack(chunks)
            for chunk in chunks:
                self._consumers[chunk.sequence].begin()
            hand_out: Callable[[list[Chunk]], None]
            if draws is None:
                hand_out = partial(self._hand_out, outputs=self._runner.run(batch))
                self._scheduler.commit(chunks)
            else:
                hand_out = partial(self._hand_out_drawn, drawn=self._runner.draw(batch, draws))
                work = replace(work, steps=draws.steps)
        except Exception as error:
            self.is_lost |= isinstance(error, DeviceLost)
            concerned = [chunk.sequence for chunk in chunks if not self.is_lost]
            concerned = concerned or list(self._consumers)
            for sequence in concerned:
                self._fail(sequence, error)
            return
        self._steps += work.steps
        self.last_worked = time.monotonic()
        hand_out(chunks)
        self._observe(work, self._clock() - begun)

    def close(self) -> None:
        """Ends all sequences and gives back what the backend holds."""
        self._is_closed = True
        self._abort(self._consumers)
        self._guessing.close()
        self._runner.close()

    def check_integrity(self) -> None:
        """RuntimeError unless the books of sequences and blocks agree."""
        self._scheduler.check_integrity()
        scheduled = {*self._scheduler.running, *self._scheduler.waiting}
        if scheduled != set(self._consumers):
            raise RuntimeError("a sequence without a consumer, or the other way round")

    def stats(self) -> Stats:
        """A snapshot; may be asked from any thread."""
        return Stats(
            running=len(self._scheduler.running),
            waiting=len(self._scheduler.waiting) + self._consumers.num_followers,
            steps=self._steps,
            tokens_computed=self._tokens_computed,
            tokens_generated=self._tokens_generated,
            blocks_free=tuple(pool.num_free for pool in self._scheduler.tables.pools),
            blocks=tuple(pool.num_blocks for pool in self._scheduler.tables.pools),
        )

    def _copy(self) -> None:
        """Blocks and states that are to be copied before anything is read or written."""
        self._runner.copy(self._scheduler.take_copies())

    def _observe(self, work: Work, seconds: float) -> None:
        self._scheduler.observe(work, seconds)
        if not work.prefill_tokens:
            self._guessing.observe(work.decode_rows, seconds / work.steps)

    def _hand_out(self, chunks: list[Chunk], outputs: Mapping[str, Rows]) -> None:
        """Gives each sequence its rows, which lie in the order of the chunks."""
        first = token = 0
        reads = self._guessing.reads
        for chunk in chunks:
            self._tokens_computed += chunk.count
            begun = chunk.sequence.num_computed_tokens - chunk.count
            num_rows = chunk.num_rows
            if chunk.sequence.wants_hidden:
                self._take(chunk.sequence, outputs["hidden"][token : token + chunk.count])
            elif num_rows:
                self._take(chunk.sequence, outputs["logits"][first : first + num_rows])
            if reads is not None:
                self._guessing.follow(
                    chunk.sequence, begun, outputs[reads][token : token + chunk.count]
                )
            first += num_rows
            token += chunk.count

    def _plan_draws(self, chunks: list[Chunk]) -> Draws | None:
        if not chunks or not self._runner.can_draw:
            return None
        return plan_draws(chunks, self._consumers, self._guessing, self._scheduler)

    def _hand_out_drawn(self, chunks: list[Chunk], drawn: list[list[int]]) -> None:
        """Gives each sequence the tokens drawn for it."""
        for chunk, tokens in zip(chunks, drawn, strict=True):
            self._give(chunk.sequence, partial(self._take_drawn, chunk, tokens))

    def _take_drawn(self, chunk: Chunk, tokens: list[int]) -> bool:
        """Those that are taken, but for the last, are computed; a recurrent state has read all of
        them, taken or not."""
        sequence = chunk.sequence
        num_tokens = len(sequence.token_ids)
        finished = self._consumers[sequence].take_drawn(tokens)
        taken = len(sequence.token_ids) - num_tokens
        self._tokens_computed += taken
        if taken < len(tokens):
            self._scheduler.forget_state(sequence)
        self._scheduler.commit([replace(chunk, count=taken)])
        return finished

    def _take(self, sequence: Sequence, rows: Rows) -> None:
        """Gives rows to the sequence's consumer; those of a new prompt to all who follow, too."""
        takers = [sequence]
        if self._consumers.has_followers(sequence):
            takers += self._fork(sequence)
        for taker in takers:
            self._give(taker, partial(self._take_rows, taker, rows))

    def _take_rows(self, sequence: Sequence, rows: Rows) -> bool:
        drafts = sequence.withdraw_drafts()
        try:
            return self._consumers[sequence].take(rows, drafts)
        finally:
            if drafts:
                self._scheduler.settle(sequence, drafts)

    def _give(self, sequence: Sequence, take: Callable[[], bool]) -> None:
        """Lets a sequence's consumer take what is its; whoever fails there is alone concerned."""
        finished, sure = False, len(sequence.token_ids) - sequence.num_draft_tokens
        try:
            finished = take()
        except Exception as error:
            self._fail(sequence, error)
        self._tokens_generated += len(sequence.token_ids) - sure
        if finished:
            self._scheduler.finish(sequence)
            self._leave(sequence)

    def _fork(self, sequence: Sequence) -> list[Sequence]:
        """Lets those who follow this sequence begin where it is."""
        forks = []
        for follower in self._consumers.take_followers(sequence):
            fork = follower.sequence
            fork.seq_id = next(self._seq_ids)
            self._scheduler.fork(sequence, fork)
            self._consumers.enter(follower)
            follower.begin()
            forks.append(fork)
        return forks

    def _abort(self, sequences: Iterable[Sequence]) -> None:
        for sequence in sequences:
            self._scheduler.finish(sequence)
            consumers.abort(self._leave(sequence))

    def _fail(self, sequence: Sequence, error: Exception) -> None:
        self._scheduler.forget_state(sequence)  # it may be halfway to the next token's
        self._scheduler.finish(sequence)
        consumers.fail(self._leave(sequence), error)

    def _leave(self, sequence: Sequence) -> list[Consumer]:
        """Forgets a sequence; its consumer, and those who waited for its prompt."""
        self._guessing.forget(sequence)
        return self._consumers.leave(sequence)
