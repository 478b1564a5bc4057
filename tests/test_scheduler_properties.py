"""What holds of the scheduler whatever is asked of it: books, results, and bounds on waiting."""

import pytest
from hypothesis import given, settings, strategies as st

from edgellm import scheduler as scheduler_module
from edgellm.sequence import Sequence
from tests.scheduler_driver import Answering, Driver, Stingy, make, sequence

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
