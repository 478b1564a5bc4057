"""Frequencies against the papers' closed forms."""

import math

import numpy as np
import pytest

from edgellm.models.rope import RopeScaling, inverse_frequencies

PLAIN = 150000.0 ** -(np.arange(32) / 32)


def test_plain() -> None:
    np.testing.assert_allclose(inverse_frequencies(64, 150000.0), PLAIN, rtol=1e-6)


def test_linear_divides_all() -> None:
    got = inverse_frequencies(64, 150000.0, RopeScaling("linear", 8.0, 4096))
    np.testing.assert_allclose(got, PLAIN / 8, rtol=1e-6)


def test_divisors_apply_per_pair() -> None:
    divisors = np.linspace(1, 8, 32, dtype=np.float32)
    for kind in ("none", "longrope"):
        got = inverse_frequencies(64, 150000.0, RopeScaling(kind, 3.0, 4096), divisors)
        np.testing.assert_allclose(got, PLAIN / divisors, rtol=1e-6)


@pytest.mark.parametrize("truncate", [False, True])
def test_yarn_keeps_fast_pairs_and_stretches_slow_ones(truncate: bool) -> None:
    scaling = RopeScaling("yarn", 32.0, 4096, truncate=truncate)
    got = inverse_frequencies(64, 150000.0, scaling) / PLAIN
    # pair i turns context * frequency / 2 pi times over the original context
    turns = 4096 * PLAIN / (2 * math.pi)
    np.testing.assert_allclose(got[turns > 40], 1, rtol=1e-6)
    np.testing.assert_allclose(got[turns < 0.8], 1 / 32, rtol=1e-6)
    between = got[(turns < 32) & (turns > 1)]
    assert (np.diff(between) < 0).all()
    low, high = (
        64 * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(150000)) for turns in (32, 1)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    stretch = (12 - low) / (high - low)
    assert got[12] == pytest.approx(1 - stretch + stretch / 32, rel=1e-5)


@pytest.mark.parametrize("context", [2048, 4096, 6000, 16384])
def test_dynamic_raises_the_base_beyond_the_original_context(context: int) -> None:
    """base (factor L / L0 - (factor - 1)) ** (d / (d - 2)), for the context loaded with."""
    growth = 2.0 * context / 4096 - 1 if context > 4096 else 1.0
    base = 150000.0 * growth ** (64 / 62)
    got = inverse_frequencies(
        64, 150000.0, RopeScaling("dynamic", 2.0, 4096), context_length=context
    )
    np.testing.assert_allclose(got, base ** -(np.arange(32) / 32), rtol=1e-6)


def test_the_divisors_of_llama_3_stretch_slow_pairs() -> None:
    """Files carry what the configuration's factor, low and high frequency factors come to."""
    factor, low, high, original = 8.0, 1.0, 4.0, 8192
    plain = 500000.0 ** -(np.arange(64) / 64)
    turns = original * plain / (2 * math.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    wanted = (1 - smooth) * plain / factor + smooth * plain
    divisors = (plain / wanted).astype(np.float32)
    got = inverse_frequencies(128, 500000.0, RopeScaling("linear", 1.0, original), divisors)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert got[0] == 1 and got[-1] == pytest.approx(plain[-1] / 8, rel=1e-6)


def test_magnitude() -> None:
    for kind in ("linear", "longrope"):  # files with longrope need not name it
        assert RopeScaling(kind, 8.0, 4096, attention_factor=1.2).magnitude == 1.2
    assert RopeScaling("linear", 8.0, 4096).magnitude == 1
    assert RopeScaling("yarn", 32.0, 4096).magnitude == pytest.approx(1.3465736)
    assert RopeScaling("yarn", 0.5, 4096).magnitude == 1
