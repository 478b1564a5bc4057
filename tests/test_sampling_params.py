"""Every setting of sampling: defaults, ranges, how it is read, and what was given."""

import copy
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from edgellm.errors import RequestError
from edgellm.options import check, from_text, wanted
from edgellm.sampling_params import (
    DEFAULT_SAMPLERS,
    OPTIONS,
    SAMPLERS,
    SamplingParams,
    check_params,
    read_params,
    resolve,
)

TEXT = st.text("ab;kp", max_size=5)
RANGED = [name for name, option in OPTIONS.items() if option.lowest is not None]


def test_every_field_is_an_option_with_help() -> None:
    assert list(OPTIONS) == [entry.name for entry in fields(SamplingParams)]
    assert all(option.help and "\n" not in option.help for option in OPTIONS.values())
    numbers = [o for o in OPTIONS.values() if o.kind.name in ("whole", "number")]
    assert all(o.lowest is not None and o.highest is not None for o in numbers)


def test_the_defaults_are_good_values() -> None:
    for option in OPTIONS.values():
        check(option, option.default)
    check_params(SamplingParams())


def test_the_default_order_is_llama_cpps() -> None:
    assert "".join(SAMPLERS[name] for name in DEFAULT_SAMPLERS) == "edskypmxt"
    assert SamplingParams().samplers == DEFAULT_SAMPLERS


@pytest.mark.parametrize("name", RANGED)
def test_a_range_holds_at_both_ends(name: str) -> None:
    low, high = OPTIONS[name].lowest, OPTIONS[name].highest
    assert low is not None and high is not None
    step = 1 if OPTIONS[name].kind.name == "whole" else 0.001
    for good in (low, high):
        check(OPTIONS[name], good)
    for bad in (low - step, high + step, math.nan, math.inf, -math.inf, True, "1", [1]):
        with pytest.raises(RequestError, match=name) as found:
            check_params(SamplingParams(**{name: bad}))
        assert found.value.field == name
        assert f"{low} to {high}" in str(found.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("top_k", 1.5),
        ("top_k", None),
        ("n", 100000),
        ("dry_allowed_length", -5),
        ("dry_penalty_last_n", -5),
        ("seed", 2**64),
        ("ignore_eos", 1),
        ("stop", "text"),
        ("stop", ("",)),
        ("stop", ("x",) * 65),
        ("samplers", ("top_k", "nonsense")),
        ("samplers", "kp"),
        ("logit_bias", [1]),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", {1: 1e308}),
        ("logit_bias", {1: True}),
        ("logit_bias", {1.5: 1.0}),
        ("logit_bias", dict.fromkeys(range(20000), 1.0)),
        ("json_schema", 5),
        ("json_schema", ""),
        ("regex", ""),
        ("regex", "\ud800"),
        ("choices", ("a", "\ud800")),
        ("dry_sequence_breakers", ("\ud800",)),
        ("grammar", b"root"),
        ("choices", ()),
        ("choices", ("a", "")),
        ("loop_detection", "maybe"),
    ],
)
def test_a_bad_value_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(RequestError, match=field) as found:
        check_params(SamplingParams(**{field: value}))
    assert found.value.field == field


NOT_NUMBERS = (math.nan, math.inf, -math.inf, 10**400, -(10**400), 10**5000, True, "1", b"1", [1])
# Per kind of setting: what is refused in the library, in a JSON object, and on the command line.
BAD: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], tuple[str, ...]]] = {
    "whole": (
        (*NOT_NUMBERS, 1.5, 1.0),
        (math.nan, 1.5, "1", True, 10**400, [1], {}),
        ("1.5", "x", "", "nan", "1e3", "9" * 30, "-99", "9" * 5000),
    ),
    "number": (
        (*NOT_NUMBERS, 1j),
        (math.nan, math.inf, "1", True, 10**400, [1], {}),
        ("x", "", "nan", "inf", "-inf", "1e999", "-1e5", "1,5"),
    ),
    "flag": ((1, 0, "true", None), (1, 0, "true", [True]), ("yes", "", "1")),
    "choice": ((1, "maybe", "", None), (1, "maybe", ["off"]), ("maybe", "")),
    "text": ((1, "", b"x", ("a",)), (1, "", ["a"], {}), ("",)),
    "texts": (("a", ("",), (1,), ["a"], 1), ([""], [1], 1, {}), ("",)),
    "samplers": (("k", ("x",), ["top_k"], 1), (["x"], [1], "x;y", 1, {}), ("zz", "top_k;x")),
    "biases": (([1], {1: True}, {1.5: 1.0}, 1), ([1], {"x": None}, 1, "x"), ("x", "+", "5+x")),
    "schema": ((5, "", [1]), (5, "", [1]), ("",)),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_no_door_lets_a_bad_value_in(name: str) -> None:
    """The error says which setting it is and what it wants."""
    option = OPTIONS[name]
    library, values, texts = BAD[option.kind.name]
    doors: list[tuple[Callable[[Any], Any], tuple[Any, ...]]] = [
        (lambda value: check_params(SamplingParams(**{name: value})), library),
        (lambda value: read_params({name: value}), values),
        (lambda text: check_params(SamplingParams(**{name: from_text(option, text)})), texts),
    ]
    for door, bad in doors:
        for value in bad:
            if value is None and option.is_optional:
                continue
            with pytest.raises(RequestError) as found:
                door(value)
            assert found.value.field == name, value
            assert str(found.value).startswith(f"{name} is ") and wanted(option) in str(found.value)


@pytest.mark.parametrize(
    "given_",
    [
        {"regex": "a", "grammar": "root ::= [a]"},
        {"json_schema": True, "choices": ("a",)},
        {"n": 3, "beam_width": 2},
    ],
)
def test_what_does_not_go_together_is_refused(given_: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        check_params(SamplingParams(**given_))


def test_good_values_are_taken() -> None:
    check_params(SamplingParams(temperature=-1, top_k=0, top_p=1, max_tokens=0, stop=("a", "b")))
    check_params(SamplingParams(logit_bias={1: False, "x": -math.inf, 3: 0.5}, json_schema=False))


def test_what_was_given_is_known() -> None:
    params = SamplingParams(temperature=0.8, max_tokens=None)
    assert params.given == {"temperature": 0.8, "max_tokens": None}
    assert params == SamplingParams() and not SamplingParams().given
    for same in (copy.deepcopy(params), pickle.loads(pickle.dumps(params))):
        assert same == params and same.given == params.given
    assert replace(params, seed=1).seed == 1
    assert SamplingParams(**asdict(params)) == params


def test_advice_counts_where_nothing_was_given() -> None:
    advice = {"temperature": 0.2, "top_k": 5}
    params = resolve(SamplingParams(temperature=0.8, seed=1), advice)
    assert (params.temperature, params.top_k, params.seed) == (0.8, 5, 1)
    assert resolve(SamplingParams(), {}) == SamplingParams()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("kpt", ("top_k", "top_p", "temperature")),
        ("top_k;typical_p;temp", ("top_k", "typ_p", "temperature")),
        ("penalties; top-n-sigma;", ("penalties", "top_n_sigma")),
        (["top-k", "nucleus"], ("top_k", "top_p")),
        ("", ()),
        ([], ()),
        ("adaptive_p", ("adaptive_p",)),
    ],
)
def test_orders_are_read_as_clients_write_them(text: Any, names: tuple[str, ...]) -> None:
    assert read_params({"samplers": text}).samplers == names


def test_json_values_become_ours() -> None:
    body = {
        "top_k": 40.0,
        "stop": ["a"],
        "temperature": 1,
        "logit_bias": [[5, 1.5], ["x", False]],
        "seed": None,
        "unknown": 1,
    }
    params = read_params(json.loads(json.dumps(body)))
    assert params.given == {
        "top_k": 40,
        "stop": ("a",),
        "temperature": 1,
        "logit_bias": {5: 1.5, "x": False},
    }
    assert read_params({"stop": "end"}).stop == ("end",)


@given(
    st.dictionaries(
        st.sampled_from(list(OPTIONS)),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner),
            max_leaves=4,
        ),
        max_size=3,
    )
)
def test_no_json_object_does_harm(body: dict[str, Any]) -> None:
    """What is read has passed the check; anything else is refused by the name of a field."""
    try:
        check_params(read_params(body))
    except RequestError as error:
        assert error.field in body


def test_texts_of_the_command_line() -> None:
    assert from_text(OPTIONS["logit_bias"], "15043-inf") == {"15043": -math.inf}
    assert from_text(OPTIONS["logit_bias"], "a-b+1.5") == {"a-b": 1.5}
    assert from_text(OPTIONS["ignore_eos"], "True") is True
    for name, text in (("logit_bias", "x"), ("top_k", "1.5"), ("ignore_eos", "maybe")):
        with pytest.raises(RequestError, match=name):
            from_text(OPTIONS[name], text)


def test_a_text_may_be_in_a_file(tmp_path: Any) -> None:
    file = tmp_path / "schema.json"
    file.write_text("{}")
    assert from_text(OPTIONS["json_schema"], f"@{file}") == "{}"
    with pytest.raises(RequestError, match="cannot be read"):
        from_text(OPTIONS["grammar"], f"@{tmp_path}/none")
    with pytest.raises(RequestError, match="more than 16 MiB"):
        from_text(OPTIONS["grammar"], "@/dev/zero")
