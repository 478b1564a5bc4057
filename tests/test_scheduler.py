"""The scheduler, driven without any model: tokens are invented as they are sampled."""

import pytest
from hypothesis import given, settings, strategies as st

from edgellm import scheduler as scheduler_module
from edgellm.errors import ContextOverflow, RequestError
from edgellm.sequence import Chunk, Sequence
from tests.scheduler_driver import Answering, Driver, Stingy, make, sequence


def counts(chunks: list[Chunk]) -> dict[int, tuple[int, str]]:
    return {chunk.sequence.seq_id: (chunk.count, chunk.logits) for chunk in chunks}


def test_a_long_prompt_is_computed_in_chunks_with_logits_at_its_end() -> None:
    driver = Driver(make())
    driver.add(sequence(0, 19), answer=3)
    seen = [counts(driver.step())[0] for _ in range(5)]
    assert seen == [(8, "none"), (8, "none"), (3, "last"), (1, "last"), (1, "last")]
    assert driver.finished == {0}


def test_decode_goes_before_prefill() -> None:
    driver = Driver(make())
    driver.add(sequence(0, 3), answer=9)
    driver.step()
    driver.add(sequence(1, 30), answer=1)
    assert counts(driver.step()) == {0: (1, "last"), 1: (7, "none")}


def test_the_oldest_prefill_is_sure_of_half_and_the_shortest_is_first_in_the_rest() -> None:
    driver = Driver(make())
    driver.add(sequence(0, 30), answer=1)
    driver.add(sequence(1, 20), answer=1)
    driver.add(sequence(2, 3), answer=1)
    assert counts(driver.step()) == {0: (4, "none"), 2: (3, "last"), 1: (1, "none")}


def test_what_the_others_leave_goes_to_the_oldest() -> None:
    driver = Driver(make())
    driver.add(sequence(0, 30), answer=1)
    driver.add(sequence(1, 2), answer=1)
    assert counts(driver.step()) == {0: (6, "none"), 1: (2, "last")}


def test_scoring_reports_each_position_once_from_where_it_was_asked() -> None:
    driver = Driver(make(max_logits_rows=3))
    driver.add(sequence(0, 13, score_from=6))
    seen = [counts(driver.step())[0] for _ in range(4)]
    assert seen == [(6, "none"), (3, "all"), (3, "all"), (1, "all")]
    assert driver.scored[0] == list(range(6, 13))


def test_a_window_frees_the_blocks_it_leaves_behind() -> None:
    scheduler = make()
    driver = Driver(scheduler)
    driver.add(sequence(0, 32), answer=8)
    most = 0
    while scheduler.has_work:
        driver.step()
        most = max(most, 64 - scheduler.tables.pools[1].num_free)
    assert most <= scheduler.limits.blocks(1, 40) < scheduler.limits.blocks(0, 40)


def test_without_blocks_the_newest_is_preempted_and_resumes() -> None:
    scheduler = make(num_blocks=10)  # one context and no more
    driver = Driver(scheduler)
    for seq_id in range(2):
        driver.add(sequence(seq_id, 12), answer=20)
    newest = scheduler.waiting[1]
    preempted = False
    while scheduler.has_work:
        driver.step()
        preempted |= newest in scheduler.waiting and len(newest.token_ids) > 12
        assert 0 in driver.finished or scheduler.running[0].seq_id == 0
    assert preempted
    assert driver.finished == {0, 1}
    assert len(newest.token_ids) == 32


def test_preempted_scoring_reports_nothing_twice() -> None:
    scheduler = make(num_blocks=10, max_logits_rows=1)
    driver = Driver(scheduler)
    driver.add(sequence(0, 6), answer=30)
    scored = sequence(1, 22, score_from=2)
    driver.add(scored)
    preempted = 0
    while scheduler.has_work:
        driver.step()
        preempted += scored in scheduler.waiting and bool(driver.scored[1])
    assert preempted
    assert driver.scored[1] == list(range(2, 22))


def test_nobody_is_let_in_who_would_soon_be_preempted() -> None:
    scheduler = make(num_blocks=10, windows=(None,))
    driver = Driver(scheduler)
    driver.add(sequence(0, 27), answer=2)  # 7 blocks, promised before they are allocated
    driver.add(sequence(1, 9), answer=2)  # 3 blocks: they fit, but no other block would be left
    driver.step()
    assert list(counts(driver.step())) == [0]
    while 0 not in driver.finished:
        assert list(counts(driver.step())) == [0]
    driver.run()
    assert driver.finished == {0, 1}


def test_the_last_free_block_is_used() -> None:
    scheduler = make(num_blocks=10, windows=(None,))
    driver = Driver(scheduler)
    for seq_id in range(2):
        driver.add(sequence(seq_id, 16), answer=4)  # in the end 5 blocks each
    driver.step()
    while not driver.finished:
        assert not scheduler.waiting
        driver.step()
    driver.run()


def test_a_prompt_that_does_not_fit_is_refused_with_both_numbers() -> None:
    scheduler = make(context_length=40)
    with pytest.raises(ContextOverflow, match="41 tokens.*context size of 40"):
        scheduler.add(sequence(0, 41, score_from=0))
    with pytest.raises(ContextOverflow) as found:
        scheduler.add(sequence(0, 40))  # no room for an answer
    assert (found.value.prompt_tokens, found.value.context_length) == (40, 40)
    scheduler.add(sequence(0, 40, score_from=0))
    scheduler.add(sequence(1, 39))


def test_a_sequence_that_outgrows_its_context_does_not_stall_silently() -> None:
    scheduler = make(num_blocks=10)
    driver = Driver(scheduler)
    driver.add(sequence(0, 30), answer=20)
    with pytest.raises(RuntimeError, match="outgrew"):
        driver.run()


def test_who_outgrows_the_blocks_that_a_pin_leaves_waits_for_them() -> None:
    scheduler = make(num_blocks=10, windows=(None,))  # one context and no more
    driver = Driver(scheduler)
    driver.add(sequence(0, 12), answer=20)
    driver.add(sequence(1, 12), answer=20)
    driver.step()
    pin = scheduler.tables.pins.make_room([7] * 16, [0], [4], False)
    assert pin is not None
    seen = [driver.step() for _ in range(40)]
    assert seen[-3:] == [[], [], []] and not driver.finished
    scheduler.tables.pins.unpin(pin)
    driver.run()
    assert driver.finished == {0, 1}


def test_no_sequence_begins_with_a_state_that_a_pin_holds() -> None:
    scheduler = make(windows=(None,), num_states=4)
    driver = Driver(scheduler)
    first = sequence(0, 9)
    driver.add(first, answer=1)
    driver.run()
    pins = [scheduler.tables.pins.pin(first.token_ids)]
    assert pins[0].state is not None
    while pin := scheduler.tables.pins.make_room([7] * len(pins), [0], [1], True):
        pins.append(pin)
    driver.add(sequence(1, 12, token_ids=[*first.token_ids[:9], 5, 6, 7]), answer=2)
    assert [driver.step() for _ in range(3)] == [[], [], []]
    for pin in pins:
        scheduler.tables.pins.unpin(pin)
    driver.run()
    assert driver.finished == {0, 1}


def computed(driver: Driver) -> int:
    total = 0
    while driver.scheduler.has_work:
        total += sum(chunk.count for chunk in driver.step())
    return total


@pytest.mark.parametrize("states", [None, 8])
def test_prompts_that_come_together_are_computed_once(states: int | None) -> None:
    driver = Driver(make(windows=(None,), num_states=states))
    tokens = list(range(21))
    for seq_id in range(4):
        driver.add(sequence(seq_id, 21, token_ids=tokens), answer=1)
    # Of the others the last token alone.
    assert computed(driver) == 21 + 3
    assert driver.finished == {0, 1, 2, 3}


def test_who_waits_for_a_prefix_goes_on_once_it_is_there() -> None:
    driver = Driver(make(windows=(None,)))
    shared = list(range(20))
    driver.add(sequence(0, 30, token_ids=[*shared, *range(50, 60)]), answer=1)
    driver.add(sequence(1, 24, token_ids=[*shared, *range(70, 74)]), answer=1)
    driver.add(sequence(2, 5), answer=1)  # begins otherwise, and does not wait
    assert 2 in (seen := [counts(driver.step())])[0]
    while 1 not in seen[-1]:
        seen.append(counts(driver.step()))
    assert sum(step[0][0] for step in seen[:-1]) >= len(shared)
    assert sum(step[0][0] for step in seen[:-2]) < len(shared)
    assert computed(driver) + sum(n for step in seen for n, _ in step.values()) == 30 + 4 + 5


def test_who_waits_for_one_that_goes_away_computes_by_itself() -> None:
    scheduler = make(windows=(None,))
    driver = Driver(scheduler)
    first = sequence(0, 30, token_ids=list(range(30)))
    driver.add(first, answer=1)
    driver.add(sequence(1, 30, token_ids=list(range(30))), answer=1)
    assert list(counts(driver.step())) == [0]
    driver.finish(first)
    assert list(counts(driver.step())) == [1]
    driver.run()


def test_an_older_one_never_waits_for_a_newer_one() -> None:
    driver = Driver(make(windows=(None,)))
    tokens = list(range(30))
    driver.add(sequence(1, 30, token_ids=tokens), answer=1)
    driver.step()
    older = sequence(0, 30, token_ids=tokens)
    driver.add(older, answer=1)
    older.turn = 0  # as one that came first and was preempted
    assert set(counts(driver.step())) == {0, 1}


def test_little_in_common_is_not_waited_for() -> None:
    driver = Driver(make(windows=(None,), token_budget=16))
    driver.add(sequence(0, 12, token_ids=[1, 2, 3, 4, *range(50, 58)]), answer=1)
    driver.add(sequence(1, 12, token_ids=[1, 2, 3, 4, *range(70, 78)]), answer=1)
    assert set(counts(driver.step())) == {0, 1}


def test_prompts_with_other_adapters_do_not_wait() -> None:
    driver = Driver(make(windows=(None,)))
    for seq_id, scale in ((0, 0.0), (1, 1.0)):
        seq = sequence(seq_id, 12, token_ids=list(range(12)))
        seq.adapter_scales = (scale,)
        driver.add(seq, answer=1)
    assert set(counts(driver.step())) == {0, 1}


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(RequestError, match="empty"):
        make().add(sequence(0, 0))


def test_a_pool_smaller_than_one_context_is_refused() -> None:
    with pytest.raises(ValueError, match="one whole context"):
        make(num_blocks=9)


def test_a_budget_that_prefill_would_starve_in_is_refused() -> None:
    with pytest.raises(ValueError, match="budget"):
        make(token_budget=4)


@pytest.mark.parametrize("broken", ["table", "order", "count"])
def test_integrity_notices_wrong_books(broken: str) -> None:
    scheduler = make()
    driver = Driver(scheduler)
    for seq_id in range(2):
        driver.add(sequence(seq_id, 9), answer=9)
    driver.step()
    if broken == "table":
        scheduler.running[0].block_tables[0].pop()
    elif broken == "order":
        scheduler.running.reverse()
    else:
        scheduler.running[1].num_computed_tokens += 20
    with pytest.raises(RuntimeError):
        scheduler.check_integrity()


ACTIONS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 39), st.integers(1, 12)),
    st.tuples(st.just("score"), st.integers(1, 40), st.integers(0, 39)),
    st.tuples(st.just("abort"), st.integers(0, 30), st.just(0)),
    st.tuples(st.just("step"), st.integers(1, 5), st.just(0)),
)


@settings(max_examples=120, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=40), num_blocks=st.integers(10, 24))
def test_whatever_happens_books_are_right_and_all_finish(
    actions: list[tuple[str, int, int]], num_blocks: int
) -> None:
    scheduler = make(num_blocks=num_blocks)
    driver = Driver(scheduler)
    live: list[Sequence] = []
    aborted: set[int] = set()
    for seq_id, (action, number, more) in enumerate(actions):
        if action == "add":
            live.append(sequence(seq_id, number))
            driver.add(live[-1], min(more, 40 - number))
        elif action == "score":
            live.append(sequence(seq_id, number, score_from=min(more, number - 1)))
            driver.add(live[-1])
        elif action == "step":
            for _ in range(number):
                driver.step()
        live = [seq for seq in live if seq.seq_id not in driver.finished]
        if action == "abort" and live:
            victim = live.pop(number % len(live))
            scheduler.finish(victim)
            aborted.add(victim.seq_id)
        scheduler.check_integrity()
    driver.run()
    assert driver.finished == driver.answers.keys() - aborted
    assert all(pool.num_free == pool.num_blocks for pool in scheduler.tables.pools)


@settings(max_examples=30, deadline=None)
@given(st.integers(10, 30), st.integers(1, 6))
def test_a_long_prompt_is_not_starved_by_short_ones(long: int, short: int) -> None:
    driver = Driver(make(num_blocks=24))
    driver.add(sequence(0, long), answer=1)
    for step in range(1, 60):
        driver.add(sequence(2 * step, short), answer=2)
        driver.add(sequence(2 * step + 1, short), answer=2)
        driver.step()
        if 0 in driver.finished:
            break
    # At least half of what decoding leaves of each step's 8 tokens is its own.
    assert step <= -(-long // 2) + 1


def test_answers_that_are_preempted_again_and_again_stay_the_same() -> None:
    """Short prompts and long answers, in blocks for hardly more than one of them."""
    preempted = 0

    @settings(max_examples=40, deadline=None)
    @given(
        lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(10, 34)), min_size=3, max_size=7),
        num_blocks=st.integers(10, 13),
        windows=st.sampled_from([(None,), (None, 6)]),
        num_states=st.sampled_from([None, 5]),
        guesses=st.integers(0, 2),
    )
    def check(
        lengths: list[tuple[int, int]],
        num_blocks: int,
        windows: tuple[int | None, ...],
        num_states: int | None,
        guesses: int,
    ) -> None:
        nonlocal preempted
        driver = Answering(make(num_blocks, windows=windows, num_states=num_states))
        made = [sequence(seq_id, length) for seq_id, (length, _) in enumerate(lengths)]
        for seq, (_, answer) in zip(made, lengths, strict=True):
            driver.add(seq, answer)
        while driver.scheduler.has_work:
            for seq in driver.scheduler.draftable(guesses):
                room = driver.answers[seq.seq_id] - len(seq.token_ids) + seq.num_prompt_tokens - 1
                seq.num_draft_tokens = min(guesses, room)
                seq.token_ids += [7] * seq.num_draft_tokens
            assert driver.step()
        preempted += driver.num_preempted
        for seq, (length, answer) in zip(made, lengths, strict=True):
            alone = sequence(seq.seq_id, length)
            for _ in range(answer):
                alone.token_ids.append(driver.next_token(alone))
            assert seq.token_ids == alone.token_ids

    check()
    assert preempted > 40


ARRIVALS = st.tuples(
    st.integers(0, 6),  # steps since the one before
    st.integers(1, 30),  # tokens
    st.integers(1, 9),  # of the answer
    st.booleans(),  # whether others go first
    st.booleans(),  # whether it begins as some others do
)


@settings(max_examples=40, deadline=None)
@given(
    arrivals=st.lists(ARRIVALS, min_size=1, max_size=14),
    num_blocks=st.integers(10, 24),
    is_stingy=st.booleans(),
)
def test_each_waits_for_no_more_than_the_work_of_those_that_go_first(
    arrivals: list[tuple[int, int, int, bool, bool]], num_blocks: int, is_stingy: bool
) -> None:
    """Whoever comes later, and whatever memory there is: the first of all always gets on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler_module, "BACKGROUND_DELAY", 12)
        driver = Driver(make(num_blocks=num_blocks, windows=(None,)))
        driver.scheduler.cost = Stingy() if is_stingy else None
        added: list[tuple[Sequence, int]] = []  # and in which step
        ended: dict[int, int] = {}
        step, waits = 0, list(arrivals)
        due = waits[0][0]
        while waits or driver.scheduler.has_work:
            while waits and step >= due:
                _, length, answer, background, shares = waits.pop(0)
                tokens = list(range(length)) if shares else None
                made = sequence(len(added), length, token_ids=tokens)
                made.is_background = background
                driver.add(made, answer)
                added.append((made, step))
                due = step + waits[0][0] if waits else 0
            if driver.scheduler.has_work:
                assert driver.step()
            for seq_id in driver.finished - ended.keys():
                ended[seq_id] = step
            step += 1

    def steps(seq: Sequence) -> int:
        """Those that it takes as the first of all: beside 3 decodes 3 of 8 tokens are its own, of
        a stingy machine's 2 tokens in every fourth step 1."""
        tokens, answer = seq.num_prompt_tokens + driver.answers[seq.seq_id], driver.answers
        return (4 * tokens + 4 if is_stingy else -(-tokens // 3)) + answer[seq.seq_id]

    for seq, begun in added:
        first = [(s, at) for s, at in added if (s.turn, s.seq_id) < (seq.turn, seq.seq_id)]
        later = sum(at > begun for _, at in first)  # each may preempt it
        most = sum(steps(s) for s, _ in first) + (1 + later) * steps(seq)
        assert ended[seq.seq_id] - begun <= most


def test_wrong_guesses_of_a_recurrent_model_cost_one_token_more() -> None:
    """The state goes back to where it was saved, and only what followed is computed again."""
    driver = Driver(make(num_states=6, windows=()))
    seq = sequence(0, 7)
    driver.add(seq, answer=20)
    while not seq.is_decode:
        driver.step()
    before = seq.num_computed_tokens
    for accepted in (0, 2):
        driver.step()
        seq.token_ids += [11, 12, 13]
        seq.num_draft_tokens = 3
        (chunk,) = driver.scheduler.schedule()
        driver.run_copies()
        driver.compute([chunk])
        driver.scheduler.commit([chunk])
        assert chunk.count == 4
        driver.scheduler.rollback(seq, 3 - accepted)
        seq.token_ids.append(5)
        assert seq in driver.scheduler.running
        assert counts(driver.step())[0] == (1 + accepted + 1, "last")
    assert seq.num_computed_tokens == before + 2 * 2 + 1 + 3


def test_background_lets_others_go_first() -> None:
    driver = Driver(make(max_num_seqs=1))
    behind, ahead = sequence(0, 10), sequence(1, 10)
    behind.is_background = True
    driver.add(behind, answer=5)
    driver.step()
    driver.step()
    driver.add(ahead, answer=2)
    while 1 not in driver.finished:
        assert list(counts(driver.step())) == [1]
    # What it had is found again: two steps of prefill, and one token each from then on.
    assert counts(driver.step()) == {0: (1, "last")}
    driver.run()


def test_background_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.scheduler.BACKGROUND_DELAY", 20)
    driver = Driver(make(max_num_seqs=1))
    behind = sequence(0, 8)
    behind.is_background = True
    driver.add(behind, answer=2)
    for step in range(1, 60):
        driver.add(sequence(step, 4), answer=1)
        driver.step()
        if 0 in driver.finished:
            break
    assert 20 <= step < 50


def test_a_prompt_that_comes_again_computes_one_token() -> None:
    driver = Driver(make())
    for seq_id in range(2):
        driver.add(sequence(seq_id, 0, token_ids=list(range(19))), answer=2)
        driver.run()
    driver.add(sequence(2, 0, token_ids=list(range(19))), answer=1)
    assert counts(driver.step()) == {2: (1, "last")}
    driver.add(sequence(3, 0, token_ids=[*range(14), 99, 98]), answer=1)  # parts within a block
    assert counts(driver.step()) == {3: (2, "last")}


def test_guesses_are_computed_with_all_their_logits_and_taken_back() -> None:
    driver = Driver(make())
    seq = sequence(0, 10)
    driver.add(seq, answer=9)
    driver.step()
    driver.step()
    seq.token_ids += [7, 7, 7]
    seq.num_draft_tokens = 3
    assert counts(driver.step()) == {0: (4, "all")}
    assert (seq.num_computed_tokens, len(seq.token_ids), seq.num_draft_tokens) == (11, 12, 0)
    driver.run()


def test_a_fork_goes_on_from_what_is_computed() -> None:
    scheduler = make()
    driver = Driver(scheduler)
    parent = sequence(0, 10)
    driver.add(parent, answer=4)
    driver.step()
    driver.step()
    child = sequence(1, 0, token_ids=[*parent.token_ids[:10], 5])
    scheduler.fork(parent, child)
    driver.answers[1] = 3
    assert counts(driver.step()) == {0: (1, "last"), 1: (1, "last")}
    driver.run()
    assert driver.finished == {0, 1}


def test_prefill_does_not_wait_for_decodes_that_no_block_is_left_for() -> None:
    """The older one was to let the newer decode go first, which has no room to."""
    driver = Driver(make(num_blocks=12, windows=(None,)))
    driver.scheduler.cost = Stingy()
    driver.add(sequence(1, 36), answer=1)
    driver.add(sequence(2, 4), answer=36)
    for _ in range(200):
        if not driver.scheduler.has_work:
            break
        driver.step()
    assert driver.finished == {1, 2}
