"""The scheduler, driven without any model: tokens are invented as they are sampled."""

import pytest

from edgellm.errors import ContextOverflow, RequestError
from edgellm.sequence import BlockCopy, Sequence
from tests.scheduler_driver import Driver, Stingy, counts, make, sequence


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
    pin = scheduler.tables.pins.make_room([7] * 16)
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
    while pin := scheduler.tables.pins.make_room([7] * len(pins)):
        pins.append(pin)
    driver.add(sequence(1, 12, token_ids=[*first.token_ids[:9], 5, 6, 7]), answer=2)
    assert [driver.step() for _ in range(3)] == [[], [], []]
    for pin in pins:
        scheduler.tables.pins.unpin(pin)
    driver.run()
    assert driver.finished == {0, 1}


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


def test_a_block_of_its_own_is_written_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(make())
    copies: list[BlockCopy] = []
    monkeypatch.setattr(driver, "run_copies", lambda: copies.extend(driver.scheduler.take_copies()))
    driver.add(sequence(0, 6), answer=9)
    driver.run()
    assert driver.finished == {0} and not copies


def guessing(driver: Driver, length: int) -> Sequence:
    """A sequence that has read its prompt and begun to write, with three guesses."""
    seq = sequence(0, length)
    driver.add(seq, answer=9)
    driver.step()
    driver.step()
    seq.token_ids += [7, 7, 7]
    seq.num_draft_tokens = 3
    return seq


def test_logits_of_guesses_take_none_of_those_for_scoring() -> None:
    driver = Driver(make(max_logits_rows=3))
    guessing(driver, 4)
    driver.add(sequence(1, 9, score_from=0))
    assert counts(driver.step()) == {0: (4, "all"), 1: (3, "all")}


def test_states_are_kept_before_the_prompts_last_token_and_at_the_end() -> None:
    driver = Driver(make(windows=(), num_states=8))
    driver.add(sequence(0, 19), answer=3)
    driver.run()
    assert len(driver.scheduler.tables.tree.cached_states()) == 2


def test_a_prefix_whose_state_is_lost_leaves_no_node() -> None:
    """What is drawn behind the answer's end is in the state, so that nobody could begin with it."""
    driver = Driver(make(windows=(), num_states=4))
    driver.add(sequence(0, 6), answer=4)
    driver.step()
    driver.step(draws=8)
    assert driver.finished == {0}
    driver.scheduler.check_integrity()  # of the nodes, too
    assert len(driver.scheduler.tables.tree.cached_states()) == 1  # the prompt's


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


def test_guesses_are_computed_with_all_their_logits_and_taken_back() -> None:
    driver = Driver(make())
    seq = guessing(driver, 10)
    assert counts(driver.step()) == {0: (4, "all")}
    assert (seq.num_computed_tokens, len(seq.token_ids), seq.num_draft_tokens) == (11, 12, 0)
    driver.run()


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
