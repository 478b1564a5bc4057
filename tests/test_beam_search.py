"""Beam search against a plain search over a small vocabulary, and its ends."""

import math
import queue
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.completion import collect
from edgellm.errors import EdgeLLMError
from edgellm.sampling_params import SamplingParams
from edgellm.types import Request, TokenEvent
from tests.mock_model import EOG, VOCAB_SIZE, MockModel, make_manager, says
from tests.test_generation import answer, events

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
    manager = make_manager(MockModel(table(2), delay=0.05))
    try:
        params = SamplingParams(beam_width=3, n=2, min_tokens=40)
        request_id = manager.submit(Request("hi", params), outbox.put)
        manager.abort(request_id)
        found = [outbox.get(timeout=30) for _ in range(2)]
        done = collect(event for event in found if isinstance(event, TokenEvent))
        assert done.finish_reason == "abort" and done.others[0].finish_reason == "abort"
    finally:
        manager.close()
    assert outbox.empty()
