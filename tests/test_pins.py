"""Prompts that the cache is asked to keep: they outlast what is not, within their bounds."""

from typing import Any

import pytest

from edgellm.errors import RequestError
from edgellm.llm import Model
from edgellm.pins import Pins
from edgellm.types import SamplingParams
from tests.mock_model import MockModel, make_manager, says
from tests.scheduler_driver import Driver, make, sequence

GREEDY = SamplingParams(temperature=0)
SYSTEM = "you are a bot: "
LENGTH = 16  # tokens, with the first one; 4 blocks of the mock's 4


def mock(**sizes: int) -> Model:
    manager = make_manager(MockModel(says("ok")), **sizes)
    return Model(manager, manager.models()[0])


def cached(model: Model, prompt: str) -> int:
    return model.complete(prompt, GREEDY).usage.cached_tokens


def flood(model: Model) -> None:
    """Other prompts, more than the cache holds."""
    for letter in "abcdefgh":
        model.complete(letter * 40, GREEDY)


@pytest.mark.parametrize("keep", [True, False])
def test_a_prompt_that_is_kept_is_there_after_others(keep: bool) -> None:
    with mock(num_blocks=24) as model:
        usage = model.keep(SYSTEM) if keep else model.complete(SYSTEM, GREEDY).usage
        assert usage.prompt_tokens == LENGTH
        flood(model)
        assert (cached(model, SYSTEM + "hi") == LENGTH) is keep


def test_newer_ones_take_the_place_of_older_ones() -> None:
    with mock(num_blocks=24) as model:  # 24 - 16 of a context: 8 blocks may be kept
        prompts = [SYSTEM.replace("bot", name) for name in ("cat", "dog", "fox", "owl")]
        for prompt in prompts:
            model.keep(prompt)
        flood(model)
        shared = (1 + prompts[0].index("cat")) // 4 * 4  # by all of them: 2 blocks, and 2 each
        assert [cached(model, prompt + "x") for prompt in prompts[1:]] == [LENGTH] * 3
        flood(model)
        assert cached(model, prompts[0] + "x") in range(shared, LENGTH)


def test_a_prompt_too_long_to_be_kept_is_refused() -> None:
    with mock(num_blocks=20) as model:  # 20 - 16: 4 blocks
        model.keep(SYSTEM)
        with pytest.raises(RequestError, match="17 tokens: this cache can keep 16") as found:
            model.keep(SYSTEM + "x")
        assert found.value.field == "keep_prompt"
    with mock(num_blocks=16) as model, pytest.raises(RequestError, match="can keep 0"):
        model.keep("x")


def pins(**sizes: Any) -> tuple[Driver, Pins]:
    driver = Driver(make(**sizes))
    return driver, driver.scheduler.tables.pins


def test_a_longer_one_is_kept_in_place_of_its_beginning() -> None:
    driver, held = pins(num_blocks=40, windows=(None,))
    driver.add(sequence(1, 12), 1)
    driver.run()
    held.keep(range(100, 104))
    held.keep(range(100, 104), scales=(1.0,))  # nothing is cached of this
    held.keep(range(100, 112))
    assert [len(blocks) for blocks in held.blocks(0)] == [0, 3] and held.is_empty


def test_an_answer_that_is_aborted_early_keeps_nothing() -> None:
    driver, held = pins(num_blocks=40, windows=(None,))
    for tokens in (30, 4):
        seq = sequence(tokens, tokens)
        seq.keeps_prompt = True
        driver.add(seq, 5)
        driver.step()
        driver.scheduler.finish(seq)
    assert [len(blocks) for blocks in held.blocks(0)] == [1]


@pytest.mark.parametrize(
    ("windows", "num_states", "tokens"),
    [((None,), None, 40), ((6,), None, 40), ((None,), 4, 0), ((None,), 6, 40), ((), 4, 0)],
)
def test_the_longest_that_can_be_kept(
    windows: tuple[int | None, ...], num_states: int | None, tokens: int
) -> None:
    _, held = pins(num_blocks=24, windows=windows, num_states=num_states)
    assert held.most_kept_tokens == tokens
    _, held = pins(num_blocks=12, windows=windows, num_states=num_states)
    assert held.most_kept_tokens == (8 if tokens and None in windows else tokens)


def test_what_is_kept_is_forgotten_with_the_rest() -> None:
    manager = make_manager(MockModel(says("ok")), num_blocks=24)
    with Model(manager, manager.models()[0]) as model:
        model.keep(SYSTEM)
        engine = manager.model().engine
        manager._thread.ask(engine.clear_cache)
        assert cached(model, SYSTEM + "hi") < LENGTH


def test_states_that_are_kept_leave_half_of_all_and_one_for_each_sequence() -> None:
    for num_states, most in ((10, 5), (6, 2)):
        driver = Driver(make(max_num_seqs=4, num_states=num_states))
        for seq_id in range(8):
            seq = sequence(seq_id, 9)
            seq.keeps_prompt = True
            driver.add(seq, answer=1)
            driver.run()
        states = driver.scheduler.tables.pins.states()
        assert len({state for state in states if state is not None}) == most
