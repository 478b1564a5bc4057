"""The whole chain: order, greedy, ties, bans, biases, and draws that do not depend on company."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.errors import EdgeLLMError, RequestError
from edgellm.sampling import Sampler, greedy, logprobs, token_biases
from edgellm.sampling.candidates import Candidates, Float32
from edgellm.sampling.chain import ROWS, choice_of, rows_of
from edgellm.sampling.choice import adaptive_p, plain
from edgellm.sampling.step import Step
from edgellm.sampling_params import SAMPLERS, SamplingParams
from tests.sampling.rows import LOGITS, Words, ranking, softmax

ON = SamplingParams(
    repeat_penalty=1.1,
    dry_multiplier=0.8,
    top_n_sigma=3.0,
    typical_p=0.9,
    xtc_probability=0.5,
)


def one(logits: Float32, history: list[int] | None = None, seed: int = 0, **params: Any) -> int:
    return Sampler(SamplingParams(**params), Words(), seed=seed).sample(logits, history or [])


def names(params: SamplingParams) -> list[str]:
    by_row = {row: name for name, row in ROWS.items()}
    return [by_row[row] for row in rows_of(params)]


def test_the_rows_are_the_samplers() -> None:
    assert {*ROWS, "adaptive_p"} == set(SAMPLERS)


def test_the_order_is_the_default_of_llama_cpp() -> None:
    assert names(SamplingParams()) == ["top_k", "top_p", "min_p", "temperature"]
    assert "".join(SAMPLERS[name] for name in names(ON)) == "edskypmxt"


def test_the_users_order_counts() -> None:
    assert names(SamplingParams(samplers=("min_p", "top_k"))) == ["min_p", "top_k"]
    logits = np.array([3.0, 2.9, 0.0], np.float32)
    for order, expected in ((("penalties", "top_k"), 1), (("top_k", "penalties"), 0)):
        assert one(logits, [0], samplers=order, top_k=1, presence_penalty=1.0) == expected


def test_mirostat_leaves_only_the_temperature() -> None:
    assert names(SamplingParams(mirostat=2)) == ["temperature"]
    assert one(np.array([0.0, 1.0], np.float32), mirostat=1, temperature=0) == 1


def test_penalties_count_for_the_greedy() -> None:
    logits = np.array([3.0, 2.9, 0.0], np.float32)
    assert one(logits, [0], temperature=0, presence_penalty=1.0) == 1


@settings(deadline=None)
@given(LOGITS, st.permutations(list(ROWS)), st.integers(0, 3))
def test_greedy_in_any_order_is_the_chain_run_to_its_end(
    logits: Float32, order: list[str], seed: int
) -> None:
    """Skipping what leaves the best alone changes nothing."""
    params = SamplingParams(samplers=tuple(order), temperature=0, xtc_probability=0.5, top_k=3)
    words = Words([b"%d" % i for i in range(60)], [0])
    candidates, now = Candidates(logits), Step(params, [1, 2], words, seed, end=0)
    for name in order:
        if ROWS[name].is_on(params):
            candidates = ROWS[name].sampler(candidates, now)
    drawn = Sampler(params, words, seed=seed).sample(logits, [1, 2])
    if order.index("temperature") > order.index("infill"):
        assert drawn == candidates.token(int(candidates.logits.argmax()))


@given(LOGITS)
def test_the_lowest_id_wins_a_tie(logits: Float32) -> None:
    first = ranking(logits)[0]
    assert greedy(logits) == first == one(logits, temperature=0) == one(logits, top_k=1)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_an_error(bad: float) -> None:
    logits = np.array([0.0, bad, 1.0], np.float32)
    for heat in (0.0, 0.8):
        with pytest.raises(EdgeLLMError, match="logit"):
            one(logits, temperature=heat)


def test_the_end_is_banned_until_min_tokens_or_for_good() -> None:
    logits = np.array([5.0, 1.0], np.float32)
    words = Words([b"<end>", b"a"], [0])
    early = Sampler(SamplingParams(temperature=0, min_tokens=2), words, seed=0)
    assert [early.sample(logits, [], n) for n in range(4)] == [1, 1, 0, 0]
    never = Sampler(SamplingParams(temperature=0, ignore_eos=True), words, seed=0)
    assert [never.sample(logits, [], n) for n in (0, 10**6)] == [1, 1]


def test_biases_are_added_first() -> None:
    logits = np.array([3.0, 2.0, 1.0], np.float32)
    biased = {0: -math.inf, 2: 1.5}
    assert Sampler(SamplingParams(top_k=1), Words(), seed=0, biases=biased).sample(logits, []) == 2
    assert logits.tolist() == [3.0, 2.0, 1.0]


def test_biases_are_read_as_ids_and_texts() -> None:
    given_: dict[int | str, float] = {7: 1, "8": False, "ab": -2.0, "9" * 30: 5.0}

    def encode(text: str) -> list[int]:
        return [ord(c) - ord("a") for c in text] if text.isalpha() else [3]

    assert token_biases(given_, encode, 9) == {7: 1.0, 8: -math.inf, 0: -2.0, 1: -2.0, 3: 5.0}
    assert token_biases(None, encode, 9) == {}
    for bad in (9, -1, "99"):
        with pytest.raises(RequestError, match="logit_bias"):
            token_biases({bad: 1.0}, encode, 9)


STATEFUL: list[dict[str, Any]] = [
    {"mirostat": 1},
    {"mirostat": 2},
    {"samplers": ("top_k", "adaptive_p"), "adaptive_target": 0.3},
    {"xtc_probability": 0.5, "dry_multiplier": 1.0},
]


@pytest.mark.parametrize("params", STATEFUL)
def test_the_same_seed_gives_the_same_tokens_whoever_draws_beside(params: dict[str, Any]) -> None:
    rows = np.random.default_rng(1).normal(size=(40, 300)).astype(np.float32) * 3

    def tokens(samplers: list[Sampler]) -> list[list[int]]:
        texts: list[list[int]] = [[] for _ in samplers]
        for row in rows:
            for text, sampler in zip(texts, samplers, strict=True):
                text.append(sampler.sample(row, [*text], len(text)))
        return texts

    def sampler(seed: int) -> Sampler:
        return Sampler(SamplingParams(**params), Words(), seed=seed)

    alone = tokens([sampler(1)])[0]
    assert tokens([sampler(2), sampler(1), sampler(1)])[1:] == [alone, alone]
    assert len(set(alone)) > 5


@settings(max_examples=30)
@given(LOGITS, st.integers(0, 20))
def test_logprobs_are_the_models_own(logits: Float32, count: int) -> None:
    token = len(logits) // 2
    logprob, top = logprobs(logits, token, count)
    expected = [math.log(p) for p in softmax(logits)]
    assert logprob == pytest.approx(expected[token])
    assert [i for i, _ in top] == ranking(logits)[:count]
    assert [x for _, x in top] == pytest.approx([expected[i] for i, _ in top])


@settings(max_examples=150)
@given(
    logits=st.lists(st.integers(-4, 4), min_size=8, max_size=60),
    top_k=st.integers(0, 9),
    temperature=st.sampled_from([0.0, 0.7, 1.3]),
    bias=st.sampled_from([-math.inf, -3.0, 2.0]),
    min_tokens=st.integers(0, 2),
    more=st.sampled_from([{}, {"top_p": 0.8}, {"xtc_probability": 0.9}, {"adaptive_target": 0.4}]),
    seed=st.integers(0, 99),
)
def test_no_more_than_the_best_logits_matter_where_it_is_said_so(
    logits: list[int],
    top_k: int,
    temperature: float,
    bias: float,
    min_tokens: int,
    more: dict[str, Any],
    seed: int,
) -> None:
    params = SamplingParams(top_k=top_k, temperature=temperature, min_tokens=min_tokens, **more)
    row = np.array(logits, np.float32)
    sampler = Sampler(params, Words(), seed=seed, biases={3: bias})
    if sampler.num_best is None:
        return
    best = np.lexsort((np.arange(len(row)), -row))[: sampler.num_best]
    known = np.full_like(row, -np.inf)
    known[best] = row[best]
    try:
        want = sampler.sample(row, [1])
    except RequestError:
        want = None
    try:
        got = Sampler(params, Words(), seed=seed, biases={3: bias}).sample(known, [1])
    except RequestError:
        got = None
    assert got == want


@pytest.mark.parametrize(
    ("params", "number"),
    [
        ({"temperature": 0.0}, 1),
        ({"temperature": 0.0, "top_k": 40, "top_p": 0.9}, 1),
        ({"top_k": 40}, 40),
        ({"top_k": 3, "min_keep": 5}, 5),
        ({"top_k": 0}, None),
        ({"samplers": ()}, None),
        ({"temperature": 0.0, "repeat_penalty": 1.2}, None),
        ({"top_k": 40, "repeat_penalty": 1.2}, None),
        ({"top_k": 40, "mirostat": 2}, None),
        ({"top_k": 40, "samplers": ("top_p", "top_k", "temperature"), "top_p": 0.9}, None),
        ({"top_k": 40, "samplers": ("top_k", "infill")}, None),
    ],
)
def test_how_many_logits_matter(params: dict[str, Any], number: int | None) -> None:
    assert Sampler(SamplingParams(**params), Words(), seed=0).num_best == number


def test_a_target_counts_only_where_its_sampler_is_named() -> None:
    params = SamplingParams(adaptive_target=0.3, samplers=("top_k", "temperature"))
    assert choice_of(params) is plain
    assert choice_of(replace(params, samplers=("adaptive_p",))) is adaptive_p


def test_tokens_that_may_be_lowered_matter_beside_the_best() -> None:
    params = SamplingParams(temperature=0.0)
    assert Sampler(params, Words(), seed=0, biases={1: -1.0, 2: -math.inf}).num_best == 3
    assert Sampler(params, Words(), seed=0, biases={1: 1.0}).num_best is None
