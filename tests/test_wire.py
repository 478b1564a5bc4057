"""What goes over the wire comes back as it was; what does not fit is named."""

import json
import math

import pytest
from hypothesis import given, strategies as st

from edgellm import errors
from edgellm.errors import ContextOverflow, EdgeLLMError, RequestError
from edgellm.types import (
    LoadOptions,
    Progress,
    Request,
    SamplingParams,
    TokenEvent,
    TokenLogprob,
)
from edgellm.wire import (
    decode,
    decode_error,
    decode_event,
    encode,
    encode_error,
    encode_event,
)

numbers = st.floats(allow_nan=False)
ids = st.integers(0, 2**31)
logprobs = st.builds(
    TokenLogprob,
    ids,
    st.text(),
    numbers,
    st.lists(st.tuples(ids, numbers), max_size=2).map(tuple),
    st.binary(max_size=4),
)
events = st.builds(
    TokenEvent,
    st.integers(0, 9),
    st.text(),
    st.lists(ids, max_size=3).map(tuple),
    st.none() | st.lists(logprobs, max_size=2).map(tuple),
    st.sampled_from([None, "stop", "length", "abort"]),
    note=st.none() | st.text(),
    progress=st.none() | st.builds(Progress, ids, ids, ids, numbers),
)


def over_the_wire(value: object) -> object:
    return json.loads(json.dumps(value))


@given(events)
def test_events(event: TokenEvent) -> None:
    sent = over_the_wire(encode_event(event))
    assert decode_event(sent) == decode(TokenEvent, sent) == event


@pytest.mark.parametrize(
    "sent",
    [
        None,
        [],
        {},
        {"index": 0, "text": "a"},
        {"index": True, "text": "a", "token_ids": []},
        {"index": 0, "text": None, "token_ids": []},
        {"index": 0, "text": "a", "token_ids": [1, "2"]},
        {"index": 0, "text": "a", "token_ids": [False]},
        {"index": 0, "text": "a", "token_ids": [], "more": 1},
    ],
)
def test_what_is_no_event_is_refused(sent: object) -> None:
    with pytest.raises(RequestError, match=r"TokenEvent"):
        decode_event(sent)


params = st.builds(
    SamplingParams,
    temperature=st.floats(0, 2) | st.just(0.8),
    top_k=st.integers(0, 99),
    stop=st.lists(st.text(min_size=1), max_size=2).map(tuple),
    max_tokens=st.none() | ids,
    logit_bias=st.none() | st.dictionaries(st.text(min_size=1), numbers | st.just(False)),
    json_schema=st.none() | st.just({"type": "object"}),
)
prompts = st.text(st.characters()) | st.lists(ids).map(tuple)


@given(st.builds(Request, prompts, params, st.none() | st.text(), st.none() | st.text()))
def test_requests_and_which_fields_were_given(request: Request) -> None:
    back = decode(Request, over_the_wire(encode(request)))
    assert back == request
    assert back.params.given == request.params.given


def test_half_a_surrogate_pair_and_infinity_survive() -> None:
    request = Request("a\ud800", SamplingParams(logit_bias={"5": -math.inf}))
    assert decode(Request, over_the_wire(encode(request))) == request


def test_options() -> None:
    options = LoadOptions(threads=2, kv_cache_type="f16/f32", adapters=("a",))
    assert decode(LoadOptions, over_the_wire(encode(options))) == options


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": ["a"]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": "a", "model": 1}, "model"),
        ({"prompt": "a", "nothing": 1}, "nothing"),
        ({"prompt": "a", "params": {"nothing": 1}}, "nothing"),
        ({"prompt": "a", "params": 3}, "params"),
        ([], "Request"),
    ],
)
def test_what_does_not_fit_is_named(value: object, field: str) -> None:
    with pytest.raises(RequestError) as found:
        decode(Request, value)
    assert found.value.field == field


def test_errors_keep_their_class_and_what_they_say() -> None:
    for error in (ContextOverflow(9, 8), RequestError("no", "top_p"), errors.GGUFError("bad")):
        back = decode_error(over_the_wire(encode_error(error)))
        assert type(back) is type(error) and str(back) == str(error) and vars(back) == vars(error)
    assert type(decode_error(encode_error(ValueError("x")))) is EdgeLLMError
    assert "no error" in str(decode_error(["what"]))
