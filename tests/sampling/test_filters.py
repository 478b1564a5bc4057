"""Samplers that narrow: each against a plain definition of it and its paper's example."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from edgellm.sampling.candidates import Candidates, Float32, best
from edgellm.sampling.filters import (
    XTC_DRAW,
    min_p,
    top_k,
    top_n_sigma,
    top_p,
    typical_p,
    xtc,
)
from edgellm.sampling.mass import entropy
from tests.sampling.rows import LOGITS, LONG, forms, ids, ranking, softmax, step

CLOSE = 2e-6  # float32 weights


def likely(*probabilities: float) -> Candidates:
    return Candidates(np.log(np.array(probabilities)).astype(np.float32))


@given(LOGITS, st.integers(1, 70), st.integers(0, 70))
def test_top_k_keeps_the_first_of_the_ranking(logits: Float32, k: int, keep: int) -> None:
    for candidates in forms(logits):
        kept = ids(top_k(candidates, step(top_k=k, min_keep=keep)))
        assert kept == ranking(logits)[: max(k, keep)]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 2000), st.integers(1, 30), st.integers(0, 2**32), st.booleans())
def test_the_best_of_many_are_the_ranking(size: int, k: int, seed: int, few_values: bool) -> None:
    logits = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    if few_values:
        logits = np.round(logits)
    chosen = best(Candidates(logits), k)
    assert ids(chosen) == ranking(logits)[:k]
    assert chosen.logits.tolist() == [logits[i] for i in ids(chosen)]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 20), st.integers(0, 30), st.integers(0, 2**32))
def test_the_best_of_many_of_which_few_are_allowed(k: int, allowed: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = np.full(3000, -np.inf, np.float32)
    logits[rng.integers(3000, size=allowed)] = np.round(rng.normal(size=allowed), 1)
    assert ids(best(Candidates(logits), k)) == ranking(logits)[:k]


def check_fewest(kept: list[int], order: list[int], masses: list[float], p: float, n: int) -> None:
    """`kept` are the first of the order, as many as reach p, and at least n."""
    assert sorted(kept) == sorted(order[: len(kept)]) and len(kept) >= min(n, len(order))
    assert math.fsum(masses[i] for i in kept) >= p - CLOSE
    if len(kept) > max(n, 1):
        assert math.fsum(masses[i] for i in order[: len(kept) - 1]) < p + CLOSE


@settings(max_examples=60, deadline=None)
@given(LOGITS | LONG, st.floats(0.0, 0.999), st.integers(0, 70))
def test_top_p_keeps_the_fewest_that_reach_p(logits: Float32, p: float, keep: int) -> None:
    for candidates in forms(logits):
        kept = ids(top_p(candidates, step(top_p=p, min_keep=keep)))
        check_fewest(kept, ranking(logits), softmax(logits), p, keep)
        assert kept == [i for i in ids(candidates) if i in set(kept)]


def test_top_p_of_the_paper() -> None:
    """Holtzman et al.: the nucleus is the smallest set whose probabilities reach p."""
    candidates = likely(0.1, 0.5, 0.03, 0.25, 0.12)
    assert ids(top_p(candidates, step(top_p=0.9))) == [0, 1, 3, 4]
    assert ids(top_p(candidates, step(top_p=0.49))) == [1]


@settings(max_examples=60, deadline=None)
@given(LOGITS | LONG, st.floats(0.0, 0.999), st.integers(0, 70))
def test_typical_p_keeps_what_is_as_surprising_as_expected(
    logits: Float32, p: float, keep: int
) -> None:
    masses = softmax(logits)
    expected = -math.fsum(m * math.log(m) for m in masses if m)
    distances = [abs(-math.log(m) - expected) if m > 1e-300 else math.inf for m in masses]
    for candidates in forms(logits):
        kept = set(ids(typical_p(candidates, step(typical_p=p, min_keep=keep))))
        furthest = max(distances[i] for i in kept)
        inside = [i for i, d in enumerate(distances) if d < furthest - 1e-3]
        assert set(inside) <= kept and len(kept) >= min(keep, len(logits))
        assert math.fsum(masses[i] for i in kept) >= p - CLOSE
        if len(kept) > max(keep, 1):
            assert math.fsum(masses[i] for i in inside) < p + CLOSE


def test_typical_p_of_the_paper() -> None:
    """Meister et al.: the likeliest token is left out where it says too little."""
    candidates = likely(0.3, *[0.01] * 70)
    assert 0 not in ids(typical_p(candidates, step(typical_p=0.5)))
    assert 0 in ids(typical_p(candidates, step(typical_p=0.9)))


@given(LOGITS, st.floats(0.001, 1.0), st.integers(0, 70))
def test_min_p_keeps_what_is_likely_enough(logits: Float32, p: float, keep: int) -> None:
    probabilities = softmax(logits)
    for candidates in forms(logits):
        kept = set(ids(min_p(candidates, step(min_p=p, min_keep=keep))))
        assert set(ranking(logits)[: max(1, keep)]) <= kept
        sure = {i for i, q in enumerate(probabilities) if q > (p + 1e-6) * max(probabilities)}
        maybe = {i for i, q in enumerate(probabilities) if q > (p - 1e-6) * max(probabilities)}
        assert sure <= kept
        assert kept <= maybe or len(kept) == min(keep, len(logits))


@given(LOGITS, st.floats(0.01, 5.0))
def test_top_n_sigma_keeps_what_is_near_the_best(logits: Float32, n: float) -> None:
    mean = sum(map(float, logits)) / len(logits)
    sigma = math.sqrt(sum((float(x) - mean) ** 2 for x in logits) / len(logits))
    threshold = float(max(logits)) - n * sigma
    for candidates in forms(logits):
        kept = set(ids(top_n_sigma(candidates, step(top_n_sigma=n))))
        assert {i for i, x in enumerate(logits) if x > threshold + 1e-5} <= kept
        assert kept <= {i for i, x in enumerate(logits) if x > threshold - 1e-5}


def test_top_n_sigma_of_the_paper() -> None:
    """Tang et al.: what is kept does not change with the temperature, and banned do not count."""
    logits = np.array([9.0, 8.5, 1.0, 0.5, 0.0, -0.5, -1.0, -np.inf], np.float32)
    kept = ids(top_n_sigma(Candidates(logits), step(top_n_sigma=1.0)))
    assert kept == [0, 1] == ids(top_n_sigma(Candidates(logits / 7), step(top_n_sigma=1.0)))


@given(LOGITS, st.floats(0.0, 0.5), st.integers(0, 5))
def test_xtc_leaves_out_all_but_the_last_of_the_likely(
    logits: Float32, threshold: float, keep: int
) -> None:
    now = step(xtc_probability=1.0, xtc_threshold=threshold, min_keep=keep)
    probabilities = softmax(logits)
    assume(all(abs(p - threshold) > CLOSE for p in probabilities))
    above = [i for i in ranking(logits) if probabilities[i] > threshold]
    for candidates in forms(logits):
        kept = set(ids(xtc(candidates, now)))
        dropped = above[:-1] if len(logits) - len(above[:-1]) >= keep else []
        assert kept == set(range(len(logits))) - set(dropped)


def test_xtc_of_its_description() -> None:
    candidates = likely(0.02, 0.3, 0.5, 0.12, 0.06)
    assert ids(xtc(candidates, step(xtc_probability=1.0, xtc_threshold=0.1))) == [0, 3, 4]
    assert len(xtc(candidates, step(xtc_probability=1.0, xtc_threshold=0.51))) == 5


def test_xtc_happens_as_often_as_it_should_and_repeats() -> None:
    candidates = likely(0.5, 0.5)
    happened = [len(xtc(candidates, step(range(i), xtc_probability=0.3))) == 1 for i in range(1000)]
    assert 250 < sum(happened) < 350
    assert happened[:50] == [step(range(i)).uniform(XTC_DRAW) < 0.3 for i in range(50)]


@given(LOGITS)
def test_entropy(logits: Float32) -> None:
    expected = -math.fsum(p * math.log(p) for p in softmax(logits) if p)
    assert entropy(logits) == pytest.approx(expected, abs=1e-5)
