"""Beam search against a plain search over a small vocabulary, and its ends."""

import json
import math
import queue
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.completion import collect
from edgellm.errors import EdgeLLMError, RequestError
from edgellm.sampling_params import SamplingParams, check_params
from edgellm.types import Request, TokenEvent
from tests.mock_model import EOG, VOCAB_SIZE, MockModel, make_manager, says
from tests.test_generation import answer, events
from tests.waiting import PATIENCE

LETTERS = b"abcd"


def table(seed: int) -> Any:
    """Logits over a few letters and the end that depend on the last token and the length."""

    def logits(tokens: list[int], num_prompt_tokens: int) -> Any:
        row = np.full(VOCAB_SIZE, -50.0, np.float32)
        rng = np.random.default_rng([seed, len(tokens) - num_prompt_tokens, tokens[-1]])
        row[[*LETTERS, EOG]] = np.round(rng.normal(size=len(LETTERS) + 1) * 2, 2)
        return row

    return logits


def log_softmax(row: Any) -> list[float]:
    norm = math.log(math.fsum(math.exp(float(x)) for x in row))
    return [float(x) - norm for x in row]


def plainly(logits: Any, prompt: list[int], width: int, most: int) -> list[tuple[int, ...]]:
    """Beam search written for reading: whole texts in lists, no state kept."""
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    done: list[tuple[float, tuple[int, ...]]] = []
    while beams:
        ways = []
        for rank, (total, ids) in enumerate(beams):
            logprobs = log_softmax(logits([*prompt, *ids], len(prompt)))
            ways += [(-(total + logprobs[t]), rank, t, ids) for t in range(VOCAB_SIZE)]
        beams = []
        for place, (cost, _, token, ids) in enumerate(sorted(ways)):
            longer = (*ids, token)
            if token != EOG and len(longer) < most:
                beams.append((-cost, longer))
            elif place < width:
                done.append((-cost / len(longer), longer))
            if len(beams) == width or place > 2 * width * width:
                break
        done = sorted(done, key=lambda entry: -entry[0])[:width]
        if len(done) >= width and beams and beams[0][0] / len(beams[0][1]) <= done[-1][0]:
            break
    return [ids for _, ids in done]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 6))
def test_the_answers_are_those_of_a_plain_search(seed: int, width: int, most: int) -> None:
    logits = table(seed)
    done = answer(MockModel(logits), beam_width=width, n=width, max_tokens=most)
    found = [done.token_ids, *(other.token_ids for other in done.others)]
    expected = plainly(logits, list(b"hi"), width, most)
    assert found[: len(expected)] == expected
    assert [done.finish_reason == "stop"] == [done.token_ids[-1] == EOG]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(1.0, 2.0), st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_penalties_and_biases_count(
    seed: int, repeat: float, presence: float, frequency: float
) -> None:
    logits = table(seed)

    def penalised(tokens: list[int], num_prompt_tokens: int) -> Any:
        row = logits(tokens, num_prompt_tokens).copy()
        row[ord("a")] += 1.5
        for token in set(tokens):
            row[token] = row[token] / repeat if row[token] > 0 else row[token] * repeat
            row[token] -= presence + frequency * tokens.count(token)
        return row

    done = answer(
        MockModel(logits),
        beam_width=3,
        max_tokens=5,
        repeat_penalty=repeat,
        presence_penalty=presence,
        frequency_penalty=frequency,
        logit_bias={"a": 1.5},
    )
    costs = {ids: cost(penalised, ids) for ids in plainly(penalised, list(b"hi"), 3, 5)}
    assert cost(penalised, done.token_ids) == pytest.approx(min(costs.values()), abs=1e-4)


def cost(logits: Any, ids: tuple[int, ...]) -> float:
    """Minus the mean log-probability of an answer to "hi"."""
    rows = (log_softmax(logits([*b"hi", *ids[:count]], 2)) for count in range(len(ids)))
    return -sum(row[token] for row, token in zip(rows, ids, strict=True)) / len(ids)


def test_a_phrase_that_repeats_costs_by_dry() -> None:
    def logits(tokens: list[int], num_prompt_tokens: int) -> Any:
        row = np.full(VOCAB_SIZE, -30.0, np.float32)
        row[ord("b" if tokens[-1] == ord("a") else "a")], row[ord("c")] = 1.0, 0.0
        return row

    assert answer(MockModel(logits), beam_width=2, max_tokens=8).text == "abababab"
    text = answer(MockModel(logits), beam_width=2, max_tokens=8, dry_multiplier=5.0).text
    assert "ababa" not in text and "c" in text


@pytest.mark.parametrize(
    ("name", "on", "off"),
    [
        ("temperature", 0.5, 0.0),
        ("top_k", 1, 0),
        ("top_p", 0.9, 1.0),
        ("min_p", 0.1, 0.0),
        ("typical_p", 0.9, 1.0),
        ("top_n_sigma", 1.0, -1.0),
        ("xtc_probability", 0.1, 0.0),
        ("dynatemp_range", 0.1, 0.0),
        ("mirostat", 2, 0),
        ("adaptive_target", 0.0, -1.0),
        ("loop_detection", "stop", "off"),
    ],
)
def test_settings_of_draws_do_not_go_with_beams(name: str, on: Any, off: Any) -> None:
    check_params(SamplingParams(beam_width=2, **{name: off}))
    check_params(SamplingParams(**{name: on}))
    with pytest.raises(RequestError, match=f"{name} is .*beam search draws no tokens") as found:
        check_params(SamplingParams(beam_width=2, **{name: on}))
    assert found.value.field == name


def test_beams_of_json_are_closed_in_time() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    done = answer(MockModel(table(1)), beam_width=2, max_tokens=30, json_schema=schema)
    assert done.finish_reason == "stop" and json.loads(done.text)


def test_wider_is_likelier_than_greedy_where_greedy_is_misled() -> None:
    def logits(tokens: list[int], num_prompt_tokens: int) -> Any:
        weights = {b"i": (b"a", 0.55, b"b", 0.45), b"a": (b"x", 0.5, b"y", 0.5)}
        row = np.full(VOCAB_SIZE, -30.0, np.float32)
        one, p, two, q = weights.get(bytes(tokens[-1:]), (b"z", 0.98, b"w", 0.02))
        row[one[0]], row[two[0]] = math.log(p), math.log(q)
        return row

    assert answer(MockModel(logits), temperature=0, max_tokens=2).text == "ax"
    assert answer(MockModel(logits), beam_width=2, max_tokens=2).text == "bz"


def test_an_answer_of_beam_search_is_like_any_other() -> None:
    done = answer(MockModel(says("the sky")), beam_width=3, n=2, logprobs=1)
    assert (done.text, done.finish_reason, len(done.others)) == ("the sky", "stop", 1)
    assert done.logprobs is not None
    assert [entry.token_id for entry in done.logprobs] == list(done.token_ids)
    assert done.usage.prompt_tokens == 2 and done.usage.completion_tokens == 8
    stopped = answer(MockModel(says("the sky")), beam_width=2, stop=("e s",))
    assert (stopped.text, stopped.finish_reason) == ("th", "stop")
    assert answer(MockModel(says("x")), beam_width=2, max_tokens=0).finish_reason == "length"


def test_beams_keep_to_the_form() -> None:
    done = answer(MockModel(says("no idea")), beam_width=4, n=3, choices=("left", "right"))
    texts = [done.text, *(other.text for other in done.others)]
    assert set(texts) == {"left", "right"} and done.finish_reason == "stop"


def test_more_beams_than_sequences_may_run() -> None:
    """The engine of the mock lets four run."""
    logits = table(3)
    done = answer(MockModel(logits), beam_width=12, max_tokens=5)
    assert done.token_ids == plainly(logits, list(b"hi"), 12, 5)[0]


def test_an_error_ends_a_search_once() -> None:
    model = MockModel(table(1))
    model.error = ValueError("no memory")
    with pytest.raises(EdgeLLMError, match="no memory"):
        events(model, beam_width=3)


def test_an_abort_ends_every_answer() -> None:
    outbox: queue.SimpleQueue[TokenEvent | Exception] = queue.SimpleQueue()
    manager = make_manager(MockModel(table(2), delay=0.5))
    try:
        params = SamplingParams(beam_width=3, n=2, min_tokens=40)
        request_id = manager.submit(Request("hi", params), outbox.put)
        manager.abort(request_id)
        found = [outbox.get(timeout=PATIENCE) for _ in range(2)]
        done = collect(event for event in found if isinstance(event, TokenEvent))
        assert done.finish_reason == "abort" and done.others[0].finish_reason == "abort"
    finally:
        manager.close()
    assert outbox.empty()
