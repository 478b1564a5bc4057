"""Each sampler against a plain definition of it, and the draws against the distribution."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from edgellm.errors import EdgeLLMError
from edgellm.sampling import PIPELINE, greedy, logprobs, sample
from edgellm.sampling.candidates import Candidates, Float32, best
from edgellm.sampling.draws import philox, uniform
from edgellm.sampling.filters import min_p, temperature, top_k, top_p
from edgellm.sampling.penalties import penalties
from edgellm.types import SamplingParams

# Few distinct values, so that ties are common.
LOGITS = arrays(
    np.float32,
    st.integers(1, 60),
    elements=st.sampled_from([-9.0, -2.5, -1.0, 0.0, 0.5, 1.0, 3.25, 8.0]),
)


def all_of(logits: Float32) -> Candidates:
    return Candidates(logits)


def ids(candidates: Candidates) -> list[int]:
    return [candidates.token(place) for place in range(len(candidates.logits))]


def ranking(logits: Float32) -> list[int]:
    return sorted(range(len(logits)), key=lambda i: (-logits[i], i))


def softmax(logits: Float32) -> list[float]:
    weights = [math.exp(float(x) - float(max(logits))) for x in logits]
    return [w / math.fsum(weights) for w in weights]


@given(LOGITS, st.integers(0, 70))
def test_top_k_keeps_the_first_of_the_ranking(logits: Float32, k: int) -> None:
    kept = ids(top_k(all_of(logits), SamplingParams(top_k=k)))
    assert kept == (ranking(logits)[:k] if k else list(range(len(logits))))


@settings(max_examples=30)
@given(st.integers(1, 2000), st.integers(1, 30), st.integers(0, 2**32), st.booleans())
def test_the_best_of_many_are_the_ranking(size: int, k: int, seed: int, few_values: bool) -> None:
    logits = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    if few_values:
        logits = np.round(logits)
    chosen = best(all_of(logits), k)
    assert ids(chosen) == ranking(logits)[:k]
    assert chosen.logits.tolist() == [logits[i] for i in ids(chosen)]


@given(LOGITS, st.floats(0.0, 0.999), st.booleans())
def test_top_p_keeps_the_fewest_that_reach_p(logits: Float32, p: float, is_sorted: bool) -> None:
    candidates = best(all_of(logits), len(logits)) if is_sorted else all_of(logits)
    kept = ids(top_p(candidates, SamplingParams(top_p=p)))
    probabilities = softmax(logits)
    order = ranking(logits)
    assert kept == order[: len(kept)] and kept
    assert math.fsum(probabilities[i] for i in kept) >= p - 1e-9
    assert len(kept) == 1 or math.fsum(probabilities[i] for i in kept[:-1]) < p + 1e-9


def test_top_p_looks_beyond_the_few_when_they_hold_too_little() -> None:
    flat = np.zeros(5000, np.float32)
    kept = ids(top_p(all_of(flat), SamplingParams(top_p=0.5)))
    assert abs(len(kept) - 2500) <= 1
    assert kept == list(range(len(kept)))


@given(LOGITS, st.floats(0.0, 1.0))
def test_min_p_keeps_what_is_likely_enough(logits: Float32, p: float) -> None:
    kept = set(ids(min_p(all_of(logits), SamplingParams(min_p=p))))
    probabilities = softmax(logits)
    for i, probability in enumerate(probabilities):
        ratio = probability / max(probabilities)
        if abs(ratio - p) > 1e-6:
            assert (i in kept) == (ratio > p)
    assert int(logits.argmax()) in kept


def test_temperature_scales_or_picks() -> None:
    candidates = all_of(np.array([1, 4, 4, 2], np.float32))
    scaled = temperature(candidates, SamplingParams(temperature=2.0))
    assert scaled.logits.tolist() == [0.5, 2, 2, 1]
    assert ids(temperature(candidates, SamplingParams(temperature=0.0))) == [1]


def test_penalties_follow_their_definition() -> None:
    logits = np.array([2.0, -2.0, 1.0, 5.0], np.float32)
    params = SamplingParams(
        repeat_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25, repeat_last_n=4
    )
    changed = penalties(logits, params, [3, 0, 1, 1, 0])  # the 3 is too long ago
    assert changed.tolist() == [2 / 2 - 0.5 - 0.5, -2 * 2 - 0.5 - 0.5, 1.0, 5.0]
    assert logits.tolist() == [2.0, -2.0, 1.0, 5.0]


@pytest.mark.parametrize(
    "off", [SamplingParams(), SamplingParams(repeat_penalty=2.0, repeat_last_n=0)]
)
def test_penalties_that_are_off_cost_nothing(off: SamplingParams) -> None:
    logits = np.ones(4, np.float32)
    assert penalties(logits, off, [0, 1]) is logits


def test_the_order_is_the_default_of_llama_cpp() -> None:
    assert [sampler.__name__ for sampler in PIPELINE] == ["top_k", "top_p", "min_p", "temperature"]


def test_penalties_come_first() -> None:
    logits = np.array([3.0, 2.9, 0.0], np.float32)
    params = SamplingParams(temperature=0, presence_penalty=1.0)
    assert sample(logits, params, [0], seed=0, sample_index=0) == 1
    drawn = SamplingParams(top_k=1, presence_penalty=1.0)
    assert sample(logits, drawn, [0], seed=0, sample_index=0) == 1


@given(LOGITS)
def test_the_lowest_id_wins_a_tie(logits: Float32) -> None:
    first = ranking(logits)[0]
    assert greedy(logits) == first
    for params in (SamplingParams(temperature=0), SamplingParams(top_k=1)):
        assert sample(logits, params, [], seed=1, sample_index=0) == first


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_an_error(bad: float) -> None:
    logits = np.array([0.0, bad, 1.0], np.float32)
    for params in (SamplingParams(), SamplingParams(temperature=0)):
        with pytest.raises(EdgeLLMError, match="logit"):
            sample(logits, params, [], seed=0, sample_index=0)


def test_banned_tokens_are_never_drawn() -> None:
    logits = np.array([-math.inf, 0.0, -math.inf, 0.0], np.float32)
    params = SamplingParams(top_k=0, top_p=1.0, min_p=0.0)
    drawn = {sample(logits, params, [0] * i, seed=3, sample_index=0) for i in range(200)}
    assert drawn == {1, 3}


# Known answers of Random123's philox4x32-10.
@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0,) * 4, (0,) * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_words(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: str
) -> None:
    assert " ".join(f"{word:08x}" for word in philox(counter, key)) == words


def test_a_draw_depends_on_seed_answer_and_position() -> None:
    places = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2**63, 0, 0)]
    assert len({uniform(*place) for place in places}) == len(places)
    assert all(0 <= uniform(*place) < 1 for place in places)


def test_draws_follow_the_distribution() -> None:
    """Chi-square with 7 degrees of freedom: 24.3 is passed once in a thousand seeds."""
    logits = np.array([0.3, 1.2, -0.7, 2.0, 0.0, -1.5, 0.9, 1.1], np.float32)
    params = SamplingParams(temperature=0.7, top_k=0, top_p=1.0, min_p=0.0)
    expected = np.array(softmax(logits / np.float32(0.7)))
    draws = 4000
    seen = np.zeros(8)
    for seed in range(draws):
        seen[sample(logits, params, [], seed=seed, sample_index=0)] += 1
    assert ((seen - draws * expected) ** 2 / (draws * expected)).sum() < 24.3


@settings(max_examples=30)
@given(LOGITS, st.integers(0, 20))
def test_logprobs_are_the_models_own(logits: Float32, count: int) -> None:
    token = len(logits) // 2
    logprob, top = logprobs(logits, token, count)
    expected = [math.log(p) for p in softmax(logits)]
    assert logprob == pytest.approx(expected[token])
    assert [i for i, _ in top] == ranking(logits)[:count]
    assert [x for _, x in top] == pytest.approx([expected[i] for i, _ in top])
