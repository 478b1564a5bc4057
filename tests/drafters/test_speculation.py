"""No guess changes an answer: texts, events and their ends, with the engine and a mock model."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.completion import collect
from edgellm.constraints import Words, compile_constraint
from edgellm.drafters import PromptLookup
from edgellm.engine import Engine
from edgellm.generation import Generation
from edgellm.sampling import LoopDetector
from edgellm.step_cost import StepCost, Work
from edgellm.types import Completion, SamplingParams, TokenEvent
from tests.drafters.scripted import Scripted, speculating
from tests.mock_model import ByteTokenizer, MockModel, Outbox, generation, make_engine, noise, says
from tests.test_engine import finish

PROMPT = b"once upon a time"
SAMPLED = SamplingParams(temperature=1.0, seed=7, max_tokens=30)
GREEDY = SamplingParams(temperature=0, max_tokens=30)
PARAMS = {
    "greedy": GREEDY,
    "sampled": SAMPLED,
    "penalties": SamplingParams(temperature=0.7, seed=3, max_tokens=30, repeat_penalty=1.4),
    "dry": SamplingParams(temperature=1, seed=3, max_tokens=30, dry_multiplier=0.8),
    "mirostat": SamplingParams(temperature=1, seed=3, max_tokens=30, mirostat=2),
    "adaptive": SamplingParams(
        temperature=1, seed=3, max_tokens=30, adaptive_target=0.4, samplers=("adaptive_p",)
    ),
    "logprobs": SamplingParams(temperature=0.6, seed=5, max_tokens=20, logprobs=3),
    "regex": SamplingParams(temperature=1, seed=5, max_tokens=20, regex="(abc|xyz)+[0-9]{4}"),
    "loops": SamplingParams(temperature=0, max_tokens=40, loop_detection="stop"),
}


def consumer(params: SamplingParams, prompt: bytes = PROMPT) -> tuple[Generation, Outbox]:
    made, outbox = generation(prompt, params)
    tokenizer: Any = ByteTokenizer()
    made.constraint = compile_constraint(params, lambda: Words(tokenizer))
    made.loops = LoopDetector() if params.loop_detection != "off" else None
    return made, outbox


def run(engine: Engine, params: SamplingParams) -> tuple[Completion, list[Any]]:
    made, outbox = consumer(params)
    engine.add(made)
    finish(engine)
    events = [event for event in outbox if isinstance(event, TokenEvent)]
    assert len(events) == len(outbox), outbox
    told = [(e.text, e.token_ids, e.logprobs, e.finish_reason, e.stop, e.note) for e in events]
    return collect(events), told


def oracle(tokens: list[int], wrong: list[bool]) -> Any:
    """Guesses that are right where `wrong` is False, at their place in the text."""

    def guess(so_far: list[int]) -> list[int]:
        rest = range(len(so_far), len(tokens))
        return [(tokens[i] + 1) % 256 if wrong[i % len(wrong)] else tokens[i] for i in rest]

    return guess


@pytest.mark.parametrize("name", PARAMS)
@settings(max_examples=12, deadline=None)
@given(wrong=st.lists(st.booleans(), min_size=1, max_size=7))
def test_guesses_right_or_wrong_change_nothing(name: str, wrong: list[bool]) -> None:
    params = PARAMS[name]
    plain, told = run(make_engine(MockModel(noise)), params)
    tokens = [*PROMPT, *plain.token_ids]
    drafter = Scripted(oracle(tokens, wrong))
    model = MockModel(noise)
    done, told_too = run(speculating(model, drafter, token_budget=40), params)
    assert told_too == told
    assert done.usage.completion_tokens == plain.usage.completion_tokens
    assert done.usage.accepted_tokens <= done.usage.drafted_tokens
    assert not drafter.sequences
    if not any(wrong) and params.regex is None:
        assert done.usage.accepted_tokens == done.usage.drafted_tokens > 0


@settings(max_examples=25, deadline=None)
@given(
    guesses=st.lists(st.lists(st.integers(0, 257), max_size=4), min_size=1, max_size=9),
    prompts=st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=5),
    num_blocks=st.integers(16, 64),
    max_num_seqs=st.integers(1, 4),
    text=st.sampled_from([noise, says("a rose is a rose is a rose")]),
)
def test_any_guesses_in_any_company_change_nothing(
    guesses: list[list[int]],
    prompts: list[bytes],
    num_blocks: int,
    max_num_seqs: int,
    text: Any,
) -> None:
    want = []
    for prompt in prompts:
        made, _ = consumer(SAMPLED, prompt)
        engine = make_engine(MockModel(text))
        engine.add(made)
        finish(engine)
        want.append(made.sequence.token_ids)
    engine = speculating(
        MockModel(text),
        Scripted(lambda tokens: guesses[len(tokens) % len(guesses)]),
        num_blocks=num_blocks,
        max_num_seqs=max_num_seqs,
    )
    made_too = [consumer(SAMPLED, prompt)[0] for prompt in prompts]
    for one in made_too:
        engine.add(one)
    finish(engine)
    assert [one.sequence.token_ids for one in made_too] == want


@pytest.mark.parametrize("stop", [("blue",), ("y is b",), ("sky",), ("bluer", "is bluest")])
def test_a_stop_string_among_guesses_ends_the_answer(stop: tuple[str, ...]) -> None:
    params = SamplingParams(temperature=0, stop=stop)
    text = "the sky is blue"
    plain, told = run(make_engine(MockModel(says(text))), params)
    right = [*PROMPT, *text.encode()]
    engine = speculating(MockModel(says(text)), Scripted(oracle(right, [False])), token_budget=40)
    assert run(engine, params)[1] == told


def test_right_guesses_save_steps() -> None:
    text = "the sky is blue, and so is the sea"
    right = [*PROMPT, *text.encode()]
    model = MockModel(says(text))
    engine = speculating(
        model, Scripted(oracle(right, [False])), token_budget=40, context_length=96, num_blocks=99
    )
    done, _ = run(engine, SamplingParams(temperature=0))
    assert done.text == text
    assert len(model.batches) < len(text) / 2
    assert done.usage.accepted_tokens == done.usage.drafted_tokens > len(text) / 2


def test_forks_begin_without_guesses() -> None:
    params = SamplingParams(temperature=1.2, seed=7, max_tokens=12)
    texts, drafter = [], Scripted(lambda tokens: [1, 2, 3])
    for engine in (make_engine(MockModel(noise)), speculating(MockModel(noise), drafter)):
        first, *others = (generation(PROMPT, params, index)[0] for index in range(3))
        engine.add(first, *others)
        finish(engine)
        texts.append([one.sequence.token_ids for one in (first, *others)])
    assert texts[0] == texts[1]


def test_who_is_preempted_loses_its_guesses() -> None:
    """A step that an answer has guesses for begins with somebody else's request."""
    want = [run(make_engine(MockModel(noise)), params)[0].token_ids for params in (SAMPLED, GREEDY)]
    drafter = Scripted(lambda tokens: [1, 2, 3])
    engine = speculating(MockModel(noise), drafter, max_num_seqs=1)
    patient, urgent = consumer(SAMPLED)[0], consumer(GREEDY)[0]
    patient.sequence.is_background = True
    engine.add(patient)
    for _ in range(5):
        engine.step()
    engine.add(urgent)
    engine.step()
    assert patient.sequence.num_draft_tokens == 0 and not patient.sequence.block_tables
    assert patient.sequence.token_ids[len(PROMPT) :] == list(want[0][:4])
    finish(engine)
    answers = [tuple(one.sequence.token_ids[len(PROMPT) :]) for one in (patient, urgent)]
    assert answers == want


def test_a_request_may_do_without() -> None:
    drafter = Scripted(lambda tokens: [1, 2])
    params = SamplingParams(temperature=0, max_tokens=5, speculation="off")
    done, _ = run(speculating(MockModel(noise), drafter), params)
    assert done.usage.drafted_tokens == 0


def test_a_drafter_that_fails_is_left(caplog: pytest.LogCaptureFixture) -> None:
    def guess(tokens: list[int]) -> list[int]:
        if len(tokens) > len(PROMPT) + 3:
            raise OSError("broken")
        return [1]

    drafter = Scripted(guess)
    plain, told = run(make_engine(MockModel(noise)), GREEDY)
    assert run(speculating(MockModel(noise), drafter), GREEDY)[1] == told
    assert "guessing failed" in caplog.text and drafter.is_closed


def test_a_broken_step_with_guesses_fails_its_answer_alone() -> None:
    model = MockModel(noise)
    engine = speculating(model, Scripted(lambda tokens: [1, 2, 3]))
    first, failed = consumer(GREEDY)
    engine.add(first)
    for _ in range(4):
        engine.step()
    model.error = ZeroDivisionError("in a kernel")
    engine.step()
    model.error = None
    engine.check_integrity()
    assert isinstance(failed[-1], Exception) and not engine.has_work
    assert run(engine, GREEDY)[1] == run(make_engine(MockModel(noise)), GREEDY)[1]


def test_drawn_tokens_have_the_samplers_distribution() -> None:
    """Chi-square of 20,000 draws over six tokens: with guesses, as the probabilities say."""
    weights = np.array([0.35, 0.25, 0.2, 0.1, 0.07, 0.03])
    logits = np.full(258, -np.inf, np.float32)
    logits[:6] = np.log(weights)
    logits[7] = -60.0
    draws, length = 20_000, 2_000
    counts = np.zeros(6)
    for seed in range(draws // length):
        model = MockModel(lambda tokens, num_prompt_tokens: logits)
        engine = speculating(
            model,
            Scripted(lambda tokens: [len(tokens) % 6, 0]),
            context_length=length + 8,
            num_blocks=length,
        )
        params = SamplingParams(
            temperature=1, seed=seed, max_tokens=length, top_k=0, top_p=1, min_p=0
        )
        made, outbox = generation(b"a", params)
        made.max_tokens = length
        engine.add(made)
        while engine.has_work:
            engine.step()
        last = outbox[-1]
        assert isinstance(last, TokenEvent) and last.usage is not None
        assert last.usage.accepted_tokens > length / 10
        counts += np.bincount(made.sequence.token_ids[1:], minlength=6)
    assert counts.sum() == draws
    chi_square = float(((counts - draws * weights) ** 2 / (draws * weights)).sum())
    assert chi_square < 20.5  # 99.9 % of five degrees of freedom


class Meagre(StepCost):
    """Lets two prompt tokens in beside every fourth step of decodes."""

    steps = 0

    def observe(self, work: Work, seconds: float) -> None:
        self.steps += 1

    def prefill_tokens(self, decode_rows: int, wanted: int, depth: float) -> int:
        return 2 if self.steps % 4 == 3 or not decode_rows else 0


def test_guesses_go_on_while_a_prompt_waits_for_its_turn() -> None:
    right = list(b"the sky is blue, and so is the sea")
    model = MockModel(says(bytes(right).decode()))
    engine = speculating(
        model,
        Scripted(lambda tokens: right[len(tokens) - 1 :][:2] if tokens[0] == ord("a") else []),
        token_budget=40,
        context_length=96,
        num_blocks=99,
    )
    engine._scheduler.cost = Meagre()
    made, outbox = generation(b"a", GREEDY)
    engine.add(made)
    engine.step()
    engine.add(generation(b"p" * 40, GREEDY, request_id="long")[0])
    engine.step()
    reader = made.sequence.seq_id
    while made.sequence in engine._scheduler.running:
        engine.step()
        engine.check_integrity()
    counts = [dict(batch) for batch in model.batches[2:]]
    assert {tuple(counts) for counts in counts} == {(reader,), (reader, reader + 1)}
    # guesses in all steps but those that compute a part of the prompt
    assert all((batch[reader] > 1) == (len(batch) == 1) for batch in counts[:8])
    answer = collect([event for event in outbox if isinstance(event, TokenEvent)])
    assert answer.text == bytes(right[: len(answer.text)]).decode() != ""


def test_lookup_copies_what_was_said_before() -> None:
    text = "one two three four five six; one two three four five six; one two three"
    model = MockModel(says(text))
    engine = speculating(model, PromptLookup(), context_length=120, num_blocks=120)
    params = SamplingParams(temperature=0)
    made, outbox = generation(b"x", params)
    made.max_tokens = 100
    engine.add(made)
    finish(engine)
    done = collect([event for event in outbox if isinstance(event, TokenEvent)])
    assert done.text == text
    assert done.usage.accepted_tokens > 25
    assert done.usage.drafted_tokens < 2 * done.usage.accepted_tokens
