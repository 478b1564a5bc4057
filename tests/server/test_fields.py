"""Sampling parameters as requests of other servers' clients have them."""

from typing import Any

import pytest

from edgellm.errors import RequestError
from edgellm.sampling_params import SamplingParams
from edgellm.server.fields import response_format, sampling

RENAMED = {"n_predict": "max_tokens", "max_new": "max_tokens"}


@pytest.mark.parametrize(
    ("fields", "params"),
    [
        ({"top_k": -1, "min_tokens": -1}, {"top_k": 0, "min_tokens": 0}),
        ({"n_predict": -1, "seed": -1}, {}),
        ({"n_predict": 3, "max_new": 5}, {"max_tokens": 3}),
        ({"max_tokens": 2, "n_predict": 3}, {"max_tokens": 2}),
        ({"max_tokens": None, "max_new": 5}, {"max_tokens": 5}),
        ({"grammar": "", "regex": "", "choices": [], "json_schema": ""}, {}),
        ({"stop": "a"}, {"stop": ("a",)}),
        ({"stop": ["", "a"]}, {"stop": ("a",)}),
        ({"samplers": ["top_k", "mood", "temp"]}, {"samplers": ("top_k", "temperature")}),
        ({"samplers": "kt"}, {"samplers": ("top_k", "temperature")}),
        ({"samplers": []}, {"samplers": ()}),
        ({"nobody": 1}, {}),
    ],
)
def test_sampling(fields: dict[str, Any], params: dict[str, Any]) -> None:
    assert sampling(fields, RENAMED) == SamplingParams(**params)


@pytest.mark.parametrize("samplers", [["mood"], "kzt", [1]])
def test_samplers_none_of_which_is_known_are_refused(samplers: Any) -> None:
    with pytest.raises(RequestError, match="samplers is .* is wanted"):
        sampling({"samplers": samplers}, {})


@pytest.mark.parametrize(
    "form", [{"type": "json_schema"}, {"type": "json_schema", "json_schema": 1}, {"type": "xml"}]
)
def test_a_format_without_what_it_needs_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="response_format") as refused:
        response_format({"response_format": form})
    assert refused.value.field == "response_format"
