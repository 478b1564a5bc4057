"""What is decided among few candidates, against the same samplers on whole rows."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.config import cache_dir
from edgellm.errors import EdgeLLMError, RequestError
from edgellm.sampling import Find, Sampler, compiled_find, find_best
from edgellm.sampling.candidates import Candidates, Float32, best
from edgellm.sampling.chain import ROWS
from edgellm.sampling.few import MOST_FEW, few_draw
from edgellm.sampling_params import SamplingParams
from tests.sampling.rows import LOGITS, LONG, Words, ids, ranking, softmax, step

FEW = [name for name, row in ROWS.items() if row.few is not None]


@settings(max_examples=100, deadline=None)
@given(
    LOGITS,
    st.sampled_from(FEW),
    st.floats(0.01, 0.99),
    st.integers(0, 9),
)
def test_as_many_are_kept_as_of_whole_rows(
    logits: Float32, name: str, value: float, keep: int
) -> None:
    params: dict[str, Any] = {name: value, "min_keep": keep}
    sampler, few = ROWS[name].sampler, ROWS[name].few
    assert few is not None
    candidates = best(Candidates(logits), len(logits))
    kept = sampler(candidates, step(**params))
    distances = [x - float(candidates.logits[0]) for x in candidates.logits.tolist()]
    left = few(distances, SamplingParams(**params))
    want = (kept.logits - kept.logits[0]).tolist()
    if name != "top_p":
        assert left == pytest.approx(want, rel=1e-5)
        return
    # Float32 sums may pass p a token sooner or later where it is met to the last bit.
    masses = np.cumsum(softmax(candidates.logits))
    if np.abs(masses - value).min() > 1e-5:
        assert len(left) == len(want)


@given(st.lists(st.floats(-30.0, 0.0), max_size=20), st.integers(0, 3), st.floats(0.0, 0.999999))
def test_a_draw_is_where_the_running_sum_passes_the_share(
    rest: list[float], banned: int, share: float
) -> None:
    distances = [0.0, *sorted(rest, reverse=True), *[-math.inf] * banned]
    sums = np.cumsum([math.exp(x) for x in distances])
    place = few_draw(distances, share)
    assert distances[place] > -math.inf
    assert sums[place] >= share * sums[-1] - 1e-12
    assert place == 0 or sums[place - 1] <= share * sums[-1]


def test_a_weight_of_nothing_is_never_drawn() -> None:
    assert few_draw([0.0, -1e9, -math.inf], 1.0) == 0


@pytest.fixture(scope="module")
def compiled() -> Find:
    return compiled_find(cache_dir())


@settings(max_examples=150, deadline=None)
@given(
    logits=LOGITS | LONG,
    top_k=st.integers(0, 50),
    heat=st.sampled_from([0.0, 0.1, 0.8, 1.0, 3.0]),
    more=st.sampled_from(
        [{}, {"top_p": 0.5}, {"min_p": 0.3}, {"repeat_penalty": 1.2}, {"min_keep": 3}]
    ),
    bias=st.sampled_from([None, -math.inf, -3.0, 2.0]),
    order=st.permutations(["top_k", *FEW]),
    seed=st.integers(0, 999),
)
def test_the_compiled_search_draws_the_same_tokens(
    compiled: Find,
    logits: Float32,
    top_k: int,
    heat: float,
    more: dict[str, Any],
    bias: float | None,
    order: list[str],
    seed: int,
) -> None:
    samplers = ("penalties", *order)
    params = SamplingParams(temperature=heat, top_k=top_k, samplers=samplers, **more)
    biases = None if bias is None else {0: bias, len(logits) // 2: bias}

    def draw(find: Find) -> int | str:
        sampler = Sampler(params, Words(), seed=seed, biases=biases, find=find)
        try:
            return sampler.sample(logits, [0, 0])
        except RequestError as error:
            return str(error)

    assert draw(compiled) == draw(find_best)


@settings(max_examples=60, deadline=None)
@given(logits=LOGITS, bias=st.sampled_from([-math.inf, -3.0]), seed=st.integers(0, 99))
def test_lowered_tokens_are_ranked_anew(logits: Float32, bias: float, seed: int) -> None:
    """As if the row had come so."""
    biases = dict.fromkeys(ranking(logits)[:2], bias)
    lowered = logits.copy()
    lowered[list(biases)] += np.float32(bias)
    if lowered.max() == -np.inf:
        return
    params = SamplingParams(top_k=3)
    drawn = Sampler(params, Words(), seed=seed, biases=biases).sample(logits, [])
    assert drawn == Sampler(params, Words(), seed=seed).sample(lowered, [])
    assert drawn in ids(best(Candidates(lowered), 3))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_damaged_row_is_an_error_however_it_is_searched(compiled: Find, bad: float) -> None:
    logits = np.array([0.0, bad, 1.0], np.float32)
    for find in (compiled, find_best):
        for heat in (0.0, 0.8):
            sampler = Sampler(SamplingParams(temperature=heat), Words(), seed=0, find=find)
            with pytest.raises(EdgeLLMError, match="largest logit"):
                sampler.sample(logits, [])


def test_more_than_few_are_drawn_from_as_before() -> None:
    logits = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    for count in (MOST_FEW, MOST_FEW + 1):
        params = SamplingParams(top_k=count, top_p=1.0, min_p=0.0, temperature=30.0)
        drawn = {Sampler(params, Words(), seed=seed).sample(logits, []) for seed in range(400)}
        assert drawn <= set(ranking(logits)[:count])
        assert len(drawn) > count // 2
