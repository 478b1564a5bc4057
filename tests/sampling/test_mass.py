"""Sums over long rows, each against a plain definition of it."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from edgellm.sampling import mass
from edgellm.sampling.candidates import Float32
from tests.sampling.rows import LOGITS, LONG, softmax

CLOSE = 2e-6  # float32 weights
ROWS = LOGITS | LONG
WIDE, FLAT = np.linspace(0, 50, 5000, dtype=np.float32), np.zeros(3000, np.float32)
SLOW = settings(max_examples=40, deadline=None)


@SLOW
@given(ROWS)
def test_mass_and_mean(logits: Float32) -> None:
    probabilities, best = softmax(logits), float(logits.max())
    weights = [math.exp(float(x) - best) for x in logits]
    mean = math.fsum(p * (float(x) - best) for p, x in zip(probabilities, logits, strict=True) if p)
    total, found = mass.mass_and_mean(logits)
    assert total == pytest.approx(math.fsum(weights), rel=1e-6)
    assert mass.mass(logits) == pytest.approx(total, rel=1e-6)
    assert found == pytest.approx(mean, rel=1e-5, abs=1e-5)
    joined = np.concatenate(list(mass.probabilities(logits)))
    assert joined.tolist() == pytest.approx(probabilities, abs=CLOSE)


@SLOW
@given(ROWS)
def test_deviation_leaves_out_what_is_banned(logits: Float32) -> None:
    finite = [float(x) for x in logits if np.isfinite(x)]
    mean = math.fsum(finite) / len(finite)
    expected = math.sqrt(math.fsum((x - mean) ** 2 for x in finite) / len(finite))
    assert mass.deviation(logits) == pytest.approx(expected, rel=5e-6, abs=1e-9)


@SLOW
@given(ROWS, st.floats(0.0, 1.0) | st.floats(1e-9, 1e-3))
def test_at_least(logits: Float32, probability: float) -> None:
    probabilities = softmax(logits)
    found = mass.at_least(logits, probability).tolist()
    assert found == sorted(set(found))
    sure = {i for i, p in enumerate(probabilities) if p > probability * (1 + 1e-5)}
    maybe = {i for i, p in enumerate(probabilities) if p >= probability * (1 - 1e-5)}
    assert sure <= set(found) <= maybe


@pytest.mark.parametrize(("few", "many"), [(1024, 16384), (0, 16384), (0, 50), (10**9, 0)])
@SLOW
@given(
    logits=ROWS,
    aim=st.sampled_from([0.0, -0.5, -3.0, -40.0]),
    share=st.just(0.0) | st.floats(0.0, 1.0),
    least=st.integers(0, 80),
)
@example(logits=WIDE, aim=-40.0, share=0.5, least=0)
@example(logits=FLAT, aim=0.0, share=0.5, least=0)
def test_nearest(
    few: int, many: int, logits: Float32, aim: float, share: float, least: int
) -> None:
    """Whichever way they are found: sorted, within a reach, by histogram."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mass, "_FEW", few)
        patch.setattr(mass, "_MANY", many)
        kept = mass.nearest(logits, aim, share, least).tolist()
    centre = logits.max() + np.float32(aim)
    order = np.argsort(np.abs(logits - centre), kind="stable").tolist()
    assert kept == sorted(order[: len(kept)]) and len(kept) >= min(max(1, least), len(logits))
    probabilities = softmax(logits)
    assert math.fsum(probabilities[i] for i in kept) >= share - CLOSE
    if len(kept) > max(least, 1):
        assert math.fsum(probabilities[i] for i in order[: len(kept) - 1]) < share + CLOSE
