"""What an answer does with its tokens: constraints, forced tokens, loops."""

import queue
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgellm.completion import collect
from edgellm.sampling import loops
from edgellm.sampling_params import SamplingParams
from edgellm.types import Completion, Request, TokenEvent
from tests.mock_model import EOG, VOCAB_SIZE, MockModel, make_manager, noise, says
from tests.waiting import PATIENCE


def events(
    model: MockModel, prompt: str = "hi", advice: dict[str, Any] | None = None, **params: Any
) -> list[TokenEvent]:
    """All events of a request; the model's context holds 64 tokens. advice: of its file."""
    outbox: queue.SimpleQueue[TokenEvent | Exception] = queue.SimpleQueue()
    manager = make_manager(model)
    loaded = manager.model()
    loaded.info = replace(loaded.info, sampling=advice or {})
    try:
        request = Request(prompt, SamplingParams(**{"seed": 1, **params}), add_special=False)
        manager.submit(request, outbox.put)
        found: list[TokenEvent] = []
        while sum(event.finish_reason is not None for event in found) < request.params.n:
            event = outbox.get(timeout=PATIENCE)
            if isinstance(event, Exception):
                raise event
            found.append(event)
        return found
    finally:
        manager.close()


def answer(model: MockModel, advice: dict[str, Any] | None = None, **params: Any) -> Completion:
    return collect(events(model, advice=advice, **params))


def test_what_the_file_advises_counts_unless_the_user_says_otherwise() -> None:
    hot = {"temperature": 9.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    assert answer(MockModel(says("blue")), advice={"temperature": 0.0}).text == "blue"
    assert answer(MockModel(says("blue")), advice=hot, max_tokens=4).text != "blue"
    assert answer(MockModel(says("blue")), advice=hot, temperature=0).text == "blue"


def test_a_constraint_holds_whatever_the_model_would_say() -> None:
    done = answer(MockModel(says("no idea")), temperature=0, regex="[0-9]{3}")
    assert (done.text, done.finish_reason) == ("000", "stop")
    done = answer(MockModel(noise), choices=("left", "right"))
    assert done.text in ("left", "right") and done.finish_reason == "stop"


def test_the_end_is_allowed_where_the_form_is_whole() -> None:
    done = answer(MockModel(says("ab")), temperature=0, regex="[a-z]+")
    assert (done.text, done.token_ids[-1], done.finish_reason) == ("ab", EOG, "stop")


def test_forced_tokens_are_computed_in_one_pass_with_the_next() -> None:
    model = MockModel(says("x"))
    done = answer(model, temperature=0, lark='start: "abc" /[xy]/ "de" /[xy]/ "f"', logprobs=0)
    assert (done.text, done.finish_reason) == ("abcxdexf", "stop")
    assert [sum(count for _, count in batch) for batch in model.batches] == [2, 3, 3]
    assert done.logprobs is not None
    assert [entry.logprob == 0 for entry in done.logprobs] == [c not in "xy" for c in done.text]
    assert done.usage.completion_tokens == len(done.token_ids) == 8


def test_forced_tokens_stop_at_the_most_and_at_stop_strings() -> None:
    lark = 'start: "abcdefgh"'
    done = answer(MockModel(noise), lark=lark, max_tokens=3)
    assert (done.text, done.finish_reason) == ("abc", "length")
    done = answer(MockModel(noise), lark=lark, stop=("de",))
    assert (done.text, done.finish_reason) == ("abc", "stop")


def test_each_of_several_answers_follows_the_form_by_itself() -> None:
    done = answer(MockModel(noise), n=3, regex="[a-z]{4}", temperature=2.0)
    texts = [done.text, *(other.text for other in done.others)]
    assert all(len(text) == 4 and text.islower() for text in texts) and len(set(texts)) > 1


def test_bans_that_leave_nothing_are_an_error_of_this_request_alone() -> None:
    with pytest.raises(Exception, match="bans all tokens"):
        answer(MockModel(noise), choices=("a", "b"), logit_bias={97: False, 98: False})


def round_and_round(tokens: list[int], num_prompt_tokens: int) -> Any:
    row = np.zeros(VOCAB_SIZE, np.float32)
    row[b"abc"[len(tokens) % 3]] = 9.0
    return row


def test_a_loop_is_told_or_ends_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_ENOUGH", np.minimum(loops._ENOUGH, 21))
    plain = answer(MockModel(round_and_round), temperature=0, max_tokens=40)
    assert plain.usage.completion_tokens == 40
    warned = events(MockModel(round_and_round), temperature=0, max_tokens=40, loop_detection="warn")
    assert len(warned) == 40
    assert [e.note for e in warned if e.note] == ["the text repeats 3 tokens again and again"]
    stopped = events(
        MockModel(round_and_round), temperature=0, max_tokens=40, loop_detection="stop"
    )
    assert stopped[-1].finish_reason == "stop" and len(stopped) == 24
    assert stopped[-1].note == "the text repeats 3 tokens again and again"
