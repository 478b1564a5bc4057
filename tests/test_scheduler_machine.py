"""Whatever is done to the scheduler in whatever order, books and stored prefixes are right."""

from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from edgellm.pins import Pin
from edgellm.prefix_nodes import Scales
from edgellm.sequence import Sequence
from tests.scheduler_driver import Answering, Contents, Stingy, make, sequence

CONTEXT = 40
TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=CONTEXT)  # many prefixes are shared
SCALES = st.sampled_from(((), (1.0,), (0.5,)))  # of one adapter


class Machine(RuleBasedStateMachine):
    """Adds, forks, guesses, takes back, aborts, pins, saves, keeps, evicts, and runs steps in
    between, some of which draw several tokens, with an adapter and without."""

    windows: tuple[int | None, ...] = (None, 6)
    num_states: int | None = None
    num_blocks = 0

    def __init__(self) -> None:
        super().__init__()
        self.live: list[Sequence] = []
        self.pins: list[Pin] = []
        self.saved: list[tuple[Pin, Contents]] = []
        self.aborted: set[int] = set()
        self.count = 0

    @initialize(num_blocks=st.integers(10, 26), is_stingy=st.booleans())
    def start(self, num_blocks: int, is_stingy: bool) -> None:
        self.num_blocks = num_blocks  # a pin of one context leaves another one only then
        self.driver = Answering(
            make(num_blocks, CONTEXT, windows=self.windows, num_states=self.num_states)
        )
        self.scheduler.cost = Stingy() if is_stingy else None

    @property
    def scheduler(self) -> Any:
        return self.driver.scheduler

    def new(self, token_ids: list[int], scales: Scales, score_from: int | None = None) -> Sequence:
        self.count += 1
        made = sequence(self.count, 0, score_from, token_ids)
        made.adapter_scales = scales
        made.sample_index = self.count % 3
        self.live.append(made)
        return made

    def running(self) -> list[Sequence]:
        return [s for s in self.live if s in self.scheduler.running and s.score_from is None]

    @rule(
        token_ids=TOKENS,
        scales=SCALES,
        answer=st.integers(1, 30),  # so long that blocks run out
        background=st.booleans(),
        keeps=st.booleans(),
    )
    def add(
        self, token_ids: list[int], scales: Scales, answer: int, background: bool, keeps: bool
    ) -> None:
        made = self.new(token_ids[: CONTEXT - 1], scales)
        made.is_background = background
        made.keeps_prompt = keeps
        self.driver.add(made, min(answer, CONTEXT - len(made.token_ids)))

    @rule(token_ids=TOKENS, scales=SCALES, start=st.integers(0, CONTEXT))
    def score(self, token_ids: list[int], scales: Scales, start: int) -> None:
        self.driver.add(self.new(token_ids, scales, score_from=min(start, len(token_ids) - 1)))

    @precondition(lambda self: self.running())
    @rule(number=st.integers(0, 99), more=st.integers(1, 6), children=st.integers(1, 3))
    def fork(self, number: int, more: int, children: int) -> None:
        parent = self.running()[number % len(self.running())]
        done = parent.num_computed_tokens
        room = CONTEXT - done - 1
        if room < 1:
            return
        for _ in range(children):
            child = self.new([*parent.token_ids[:done], number % 2], parent.adapter_scales)
            self.scheduler.fork(parent, child)
            self.driver.answers[child.seq_id] = min(more, CONTEXT - len(child.token_ids))
            if self.driver.answers[child.seq_id] < 1:
                self.abort_one(child)

    @precondition(lambda self: self.running())
    @rule(number=st.integers(0, 99), guesses=st.lists(st.integers(0, 1), min_size=1, max_size=5))
    def guess(self, number: int, guesses: list[int]) -> None:
        seq = self.running()[number % len(self.running())]
        if seq.num_remaining_tokens == 1 and not seq.num_draft_tokens:
            guesses = guesses[: CONTEXT - len(seq.token_ids)]
            seq.token_ids += guesses
            seq.num_draft_tokens = len(guesses)

    @precondition(lambda self: self.running())
    @rule(number=st.integers(0, 99), back=st.integers(0, 20))
    def rollback(self, number: int, back: int) -> None:
        seq = self.running()[number % len(self.running())]
        back = min(back, len(seq.token_ids) - seq.num_prompt_tokens)
        if back:
            self.scheduler.rollback(seq, back)
            seq.token_ids.append(number % 2)

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, 99))
    def abort(self, number: int) -> None:
        self.abort_one(self.live[number % len(self.live)])

    def abort_one(self, seq: Sequence) -> None:
        self.scheduler.finish(seq)
        self.live.remove(seq)
        self.aborted.add(seq.seq_id)

    @precondition(lambda self: self.num_blocks > 20 and not self.pins)
    @rule(token_ids=TOKENS, scales=SCALES)
    def pin(self, token_ids: list[int], scales: Scales) -> None:
        self.pins.append(self.scheduler.tables.pins.pin(token_ids, scales))

    @precondition(lambda self: self.pins)
    @rule()
    def unpin(self) -> None:
        self.scheduler.tables.pins.unpin(self.pins.pop())

    @rule(token_ids=TOKENS, scales=SCALES)
    def save(self, token_ids: list[int], scales: Scales) -> None:
        """Keeps what is stored of a prefix, as a session on disk would."""
        self.driver.run_copies()
        pin = self.scheduler.tables.pins.pin(token_ids, scales)
        self.saved.append((pin, self.driver.contents(pin)))
        self.scheduler.tables.pins.unpin(pin)

    @precondition(lambda self: self.saved)
    @rule(number=st.integers(0, 99))
    def restore(self, number: int) -> None:
        old, contents = self.saved[number % len(self.saved)]
        self.driver.run_copies()
        tables = self.scheduler.tables
        pin = tables.pins.make_room(old.token_ids, old.scales)
        if pin is not None:
            assert pin.first == old.first
            assert list(map(len, pin.blocks)) == list(map(len, old.blocks))
            assert (pin.state is None) == (old.state is None)
            self.driver.fill(pin, contents)
            tables.pins.adopt(pin)
            tables.check_integrity(self.scheduler.running)
            tables.pins.unpin(pin)

    @rule()
    def clear(self) -> None:
        self.scheduler.tables.tree.clear()

    @rule(token_ids=TOKENS, scales=SCALES)
    def keep(self, token_ids: list[int], scales: Scales) -> None:
        self.scheduler.tables.pins.keep(token_ids, scales)

    @rule()
    def forget_kept(self) -> None:
        self.scheduler.tables.pins.forget_kept()

    @rule(steps=st.integers(1, 6), draws=st.sampled_from([1, 1, 2, 8]))
    def step(self, steps: int, draws: int) -> None:
        for _ in range(steps):
            self.driver.step(draws)
        self.live = [s for s in self.live if s.seq_id not in self.driver.finished]

    @invariant()
    def books(self) -> None:
        if hasattr(self, "driver"):
            self.scheduler.check_integrity()

    @invariant()
    def kept_leaves_half_and_one_context(self) -> None:
        if not hasattr(self, "driver") or self.pins:
            return
        pins, limits = self.scheduler.tables.pins, self.scheduler.limits
        for group, pool in enumerate(self.scheduler.tables.pools):
            kept = {block for blocks in pins.blocks(group) for block in blocks}
            assert 2 * len(kept) <= pool.num_blocks
            assert len(kept) + limits.blocks(group, CONTEXT) <= pool.num_blocks
        if self.num_states is not None:
            states = {slot for slot in pins.states() if slot is not None}
            assert 2 * len(states) <= self.num_states
            assert len(states) + limits.max_num_seqs <= self.num_states

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        while self.pins:
            self.unpin()
        self.driver.run()
        self.scheduler.tables.pins.forget_kept()
        assert self.driver.finished == self.driver.answers.keys() - self.aborted
        for pool in self.scheduler.tables.pools:
            assert pool.num_free == pool.num_blocks


class Windows(Machine):
    windows = (3, 9)


class Tiny(Machine):
    windows = (None, 1)


class Hybrid(Machine):
    num_states = 7


class Recurrent(Machine):
    windows = ()
    num_states = 5


@pytest.mark.parametrize("machine", [Machine, Windows, Tiny, Hybrid, Recurrent])
def test_books(machine: type[Machine]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=25, stateful_step_count=30, deadline=None)
    )
