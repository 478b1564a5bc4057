"""Prompts that begin alike: computed once, by whoever comes first; others wait for it, or fork."""

import pytest

from tests.scheduler_driver import Driver, counts, make, sequence


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


def test_a_prompt_that_comes_again_computes_one_token() -> None:
    driver = Driver(make())
    for seq_id in range(2):
        driver.add(sequence(seq_id, 0, token_ids=list(range(19))), answer=2)
        driver.run()
    driver.add(sequence(2, 0, token_ids=list(range(19))), answer=1)
    assert counts(driver.step()) == {2: (1, "last")}
    driver.add(sequence(3, 0, token_ids=[*range(14), 99, 98]), answer=1)  # parts within a block
    assert counts(driver.step()) == {3: (2, "last")}


def test_blocks_that_are_held_cost_another_holder_nothing() -> None:
    driver = Driver(make(10, windows=(None,)))
    tokens = list(range(20))
    driver.add(sequence(0, 20, token_ids=tokens), answer=9)
    for _ in range(4):
        driver.step()
    driver.add(sequence(1, 24, token_ids=[*tokens, 5, 6, 7, 8]), answer=1)
    assert counts(driver.step()) == {0: (1, "last"), 1: (4, "last")}


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


def test_what_is_found_is_looked_for_again_where_others_had_to_go() -> None:
    """What they leave behind may take the place of it."""
    scheduler = make(4, context_length=16, windows=(None,))
    driver = Driver(scheduler)
    for seq_id, tokens, answer in ((0, [1], 1), (1, [1, 2], 9), (2, [1, 3, 4], 1)):
        driver.add(sequence(seq_id, 0, token_ids=tokens), answer)
    driver.step()
    (parent,) = scheduler.running
    for seq_id in (3, 4):  # after the one that waits, and with blocks that it needs
        scheduler.fork(parent, sequence(seq_id, 0, token_ids=[1, 2, 5]))
        driver.answers[seq_id] = 3
    driver.run()
    assert driver.num_preempted
    assert driver.finished == {0, 1, 2, 3, 4}
