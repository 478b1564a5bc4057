"""JSON whose room runs out is led to its end."""

import json
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.constraints.ending import Place
from tests.constraints.following import compiled
from tests.mock_model import EOG, VOCAB_SIZE, MockModel, noise
from tests.test_generation import answer, events

LONG: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "array", "items": {"type": "number"}},
        "c": {"type": "string", "format": "date"},
    },
    "required": ["a", "c"],
    "additionalProperties": False,
}


def letters(tokens: list[int], num_prompt_tokens: int) -> Any:
    """A model that never closes anything by itself."""
    row = noise(tokens, num_prompt_tokens)
    row[[*b'"}],', EOG]] = -60.0
    return row


def brackets(tokens: list[int], num_prompt_tokens: int) -> Any:
    """A model that opens one array in another for ever."""
    row = noise(tokens, num_prompt_tokens)
    row[ord("[")] = 60.0
    return row


@pytest.mark.parametrize("most", [45, 50, 60])
def test_a_text_without_end_is_closed_in_time(most: int) -> None:
    """Contexts of the mock hold 64 tokens, two of which are the prompt."""
    found = events(MockModel(letters), json_schema=LONG, max_tokens=most)
    text = "".join(event.text for event in found)
    jsonschema.validate(json.loads(text), LONG)
    assert found[-1].finish_reason == "stop"
    assert found[-1].note == f"completed early, to fit in {most} tokens"
    assert most - 30 < len(text) <= most


@pytest.mark.parametrize("form", ["date-time", "time", "email", "uuid", "ipv4", "hostname"])
def test_forms_that_may_be_long_are_closed_in_time(form: str) -> None:
    done = answer(MockModel(letters), json_schema={"type": "string", "format": form}, max_tokens=50)
    assert done.finish_reason == "stop" and json.loads(done.text)


@pytest.mark.parametrize("most", range(40, 58))
def test_what_grows_by_a_bracket_a_token_is_closed_in_time(most: int) -> None:
    schema = {"type": "array", "items": {"$ref": "#"}}
    done = answer(MockModel(brackets), json_schema=schema, max_tokens=most)
    assert done.finish_reason == "stop" and json.loads(done.text)[0]


@pytest.mark.parametrize("pattern", ["^[a-c]+!$", "^a{300}$"])
def test_a_pattern_may_have_no_end(pattern: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    done = answer(MockModel(letters), json_schema=schema, max_tokens=60, logit_bias={"!": False})
    assert (done.finish_reason, len(done.text)) == ("length", 60)


def test_what_fits_is_left_alone() -> None:
    schema = {"enum": ["one", "two"]}
    found = events(MockModel(noise), json_schema=schema, max_tokens=60)
    assert found[-1].finish_reason == "stop" and found[-1].note is None


def test_other_forms_are_cut_off() -> None:
    done = answer(MockModel(letters), regex='"[a-z]*"', max_tokens=20)
    assert (done.finish_reason, len(done.text)) == ("length", 20)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 12))
def test_the_way_to_the_end_is_short_from_anywhere(seed: int, steps: int) -> None:
    """After some random bytes: bracket by bracket, and what is then complete is valid."""
    rng = np.random.default_rng(seed)
    constraint, text = compiled(json_schema=LONG), []
    for left in [None] * steps + [1] * 60:
        text += constraint.forced()
        if constraint.is_complete:
            break
        token = int(rng.choice(np.flatnonzero(constraint.allowed(VOCAB_SIZE, left))))
        if token == EOG:
            break
        constraint.accept(token)
        text.append(token)
    assert constraint.is_complete
    jsonschema.validate(json.loads(bytes(text).decode(errors="replace")), LONG)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"", Place()),
        (b'{"a', Place(in_text=True)),
        (b'{"a": [1', Place()),
        (b'"}]\\', Place(in_text=True, is_escaped=True)),
        (b'"}]\\"', Place(in_text=True)),
        (b'"\\\\"', Place()),
    ],
)
def test_where_a_text_stands(text: bytes, place: Place) -> None:
    assert Place().after([text]) == place == Place().after(bytes([byte]) for byte in text)
