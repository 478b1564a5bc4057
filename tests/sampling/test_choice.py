"""The samplers that draw and remember, temperature, infill."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from edgellm.sampling.candidates import Candidates, Float32
from edgellm.sampling.chain import Choice
from edgellm.sampling.choice import Memory, adaptive_p, fresh, mirostat, mirostat_v2
from edgellm.sampling.infill import infill
from edgellm.sampling.step import Step
from edgellm.sampling.temperature import temperature
from edgellm.sampling_params import SamplingParams
from tests.sampling.rows import LOGITS, Words, forms, ids, ranking, softmax, step


@given(LOGITS, st.floats(0.1, 5.0))
def test_temperature_divides(logits: Float32, heat: float) -> None:
    for candidates in forms(logits):
        changed = temperature(candidates, step(temperature=heat))
        assert ids(changed) == ids(candidates)
        expected = softmax(np.array([float(x) / heat for x in candidates.logits]))
        assert changed.probabilities().tolist() == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_no_temperature_picks_the_best_and_a_small_one_does_no_harm() -> None:
    candidates = Candidates(np.array([1, 4, 4, 2], np.float32))
    assert ids(temperature(candidates, step(temperature=0.0))) == [1]
    tiny = temperature(candidates, step(temperature=1e-300))
    assert tiny.probabilities().tolist() == [0, 0.5, 0.5, 0]


@given(LOGITS, st.floats(0.2, 2.0), st.floats(0.1, 3.0), st.floats(0.2, 3.0))
def test_dynamic_temperature(logits: Float32, heat: float, reach: float, exponent: float) -> None:
    now = step(temperature=heat, dynatemp_range=reach, dynatemp_exponent=exponent)
    probabilities = softmax(logits)
    share = 0.0
    if len(logits) > 1:
        share = -math.fsum(p * math.log(p) for p in probabilities if p) / math.log(len(logits))
    low = max(0.0, heat - reach)
    expected_heat = low + (heat + reach - low) * share**exponent
    changed = temperature(Candidates(logits), now)
    if expected_heat > 0.05:
        expected = softmax(np.array([float(x) / expected_heat for x in logits]))
        assert changed.probabilities().tolist() == pytest.approx(expected, rel=1e-2, abs=1e-4)
    assert ranking(logits)[0] in ids(changed)


@pytest.mark.parametrize("choose", [mirostat, mirostat_v2])
@pytest.mark.parametrize("tau", [2.0, 3.0, 5.0])
def test_mirostat_holds_the_surprise_at_tau(choose: Choice, tau: float) -> None:
    """Basu et al.: the surprise of what is drawn from a Zipf distribution comes to the target.

    mu moves by eta times what a surprise is off, which gives the surprises back.
    """
    logits = Candidates((-1.1 * np.log(np.arange(1, 2001))).astype(np.float32))
    params = SamplingParams(mirostat_tau=tau, mirostat_eta=0.1)
    memory, limits, drawn = fresh(params), [], []
    for position in range(500):
        token, memory = choose(logits, Step(params, range(position), Words(), seed=5), memory)
        limits.append(memory.mu)
        drawn.append(token)
    surprises = tau - np.diff(limits) / 0.1
    assert np.mean(surprises[100:]) == pytest.approx(tau, abs=0.1)
    assert min(surprises) > 0 and len(set(drawn)) > 5


def test_mirostat_2_of_an_example() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.125, 0.125])).astype(np.float32)
    now = step(mirostat_tau=1.0, mirostat_eta=0.5)
    for _ in range(5):
        token, memory = mirostat_v2(Candidates(logits), now, Memory(mu=2.5, sum=0, weight=0))
        assert token in (0, 1)  # the others' surprise of 3 bits is above mu
        surprise = -math.log2((2 / 3, 1 / 3)[token])
        assert memory.mu == pytest.approx(2.5 - 0.5 * (surprise - 1.0), abs=1e-5)
    token, _ = mirostat_v2(Candidates(logits), now, Memory(mu=-3.0, sum=0, weight=0))
    assert token == 0


def test_mirostat_1_of_its_formula() -> None:
    """Zipf's exponent is exact for a Zipf distribution, so k can be worked out by hand."""
    count, exponent, mu = 500, 1.5, 4.0
    logits = (-exponent * np.log(np.arange(1, count + 1))).astype(np.float32)
    e = exponent - 1
    k = int(((e * 2**mu) / (1 - count**-e)) ** (1 / exponent))
    drawn = {mirostat(Candidates(logits), step(range(i)), Memory(mu, 0, 0))[0] for i in range(400)}
    assert max(drawn) == k - 1


@given(LOGITS, st.floats(-1e4, 1e4))
def test_mirostat_takes_any_row_and_memory(logits: Float32, mu: float) -> None:
    for choose in (mirostat, mirostat_v2):
        token, memory = choose(Candidates(logits), step(), Memory(mu, 0, 0))
        assert 0 <= token < len(logits) and math.isfinite(memory.mu)


@given(LOGITS, st.floats(0.0, 1.0), st.floats(0.0, 0.99), st.floats(0.0, 5.0))
def test_adaptive_p_follows_its_definition(
    logits: Float32, target: float, decay: float, past: float
) -> None:
    now = step(adaptive_target=target, adaptive_decay=decay)
    memory = Memory(0.0, past, 10.0)
    aim = min(1.0, max(0.0, 2 * target - past / 10.0))
    probabilities = softmax(logits)
    far = [abs(p - aim) / 0.3 for p in probabilities]
    curve = softmax(np.array([5 - 10 * d * d / (1 + d) for d in far]))
    token, after = adaptive_p(Candidates(logits), now, memory)
    before = math.fsum(curve[:token])
    assert before - 1e-4 <= now.uniform() <= before + curve[token] + 1e-4
    assert after.sum == pytest.approx(probabilities[token] + decay * past, abs=1e-5)
    assert after.weight == pytest.approx(1 + decay * 10)


def test_adaptive_p_comes_to_its_target_on_average() -> None:
    logits = np.log(np.array([0.55, 0.25, 0.1, 0.06, 0.04])).astype(np.float32)
    params = {"adaptive_target": 0.3, "adaptive_decay": 0.9}
    memory, chosen = fresh(SamplingParams(**params)), []  # type: ignore[arg-type]
    assert memory.sum / memory.weight == pytest.approx(0.3)
    for position in range(400):
        token, memory = adaptive_p(Candidates(logits), step(range(position), **params), memory)
        chosen.append(softmax(logits)[token])
    assert np.mean(chosen) == pytest.approx(0.3, abs=0.05)


END = 3
CODE = Words([b"re", b"return", b"yield", b"<end>"], [END])


def filled(*probabilities: float, end: int | None = None) -> list[int]:
    now = step(vocabulary=CODE)
    now = type(now)(now.params, (), CODE, end=end)
    with np.errstate(divide="ignore"):
        logits = np.log(np.array(probabilities)).astype(np.float32)
    return ids(infill(Candidates(logits), now))


def test_infill_ends_where_the_end_is_likely() -> None:
    assert filled(0.3, 0.3, 0.3, 0.1) == [END]  # 3 * 0.1 * 4 > 0.9


def test_infill_counts_pieces_of_each_other_as_one() -> None:
    assert filled(0.5, 0.25, 0.23, 0.02) == [0, END]
    assert filled(0.25, 0.5, 0.23, 0.02) == [1, END]
    assert filled(0.2, 0.35, 0.43, 0.02) == [1, 2, END]


def test_infill_ends_where_no_text_is_likely() -> None:
    words = Words([bytes([65 + i]) for i in range(20)], [END])
    flat = Candidates(np.zeros(20, np.float32))
    now = step(vocabulary=words)
    without_end = flat.take(np.arange(4, 20), is_sorted=False)
    assert ids(infill(without_end, type(now)(now.params, (), words, end=END))) == [END]
    assert ids(infill(without_end, now)) == [4]
