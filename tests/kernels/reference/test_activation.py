"""Activations of the numpy backend against their closed forms in float64."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from edgellm.kernels.reference.activation import UNARY
from tests.kernels.reference.programs import run, weight

UNARY_FORMS: dict[str, Callable[[float], float]] = {
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_quick": lambda x: x / (1 + math.exp(-1.702 * x)),
    "relu": lambda x: max(x, 0.0),
    "relu2": lambda x: max(x, 0.0) ** 2,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "gompertz": lambda x: math.exp(-math.exp(x)),
}


@pytest.mark.parametrize("name", UNARY)
def test_activations_alone(name: str) -> None:
    x = np.linspace(-12, 12, 97, dtype=np.float32)[None]
    got = run(lambda b, v: b.activate(v, name), x)
    tolerance = 2e-3 if name == "gelu_tanh" else 1e-6  # that one goes through halves
    want = [[UNARY_FORMS[name](float(value)) for value in x[0]]]
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_xielu_is_a_parabola_above_and_an_exponential_below() -> None:
    x = np.array([[-5, -1, -0.001, 0, 0.001, 1, 5]], np.float32)
    got = run(lambda b, v: b.xielu(v, 0.8, 1.2, 0.5), x)
    wide = x.astype(np.float64)
    want = np.where(x > 0, 0.8 * wide**2, 1.2 * (np.expm1(wide) - wide)) + 0.5 * wide
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)


def test_activations(rng: np.random.Generator) -> None:
    gate, up = rng.normal(size=(2, 5, 64)).astype(np.float32) * 8
    g, u = gate.astype(np.float64), up.astype(np.float64)

    got = run(lambda b, v, w: b.gated(v, w, "silu"), gate, up)
    np.testing.assert_allclose(got, g / (1 + np.exp(-g)) * u, rtol=1e-5, atol=1e-6)

    got = run(lambda b, v, w: b.gated(v, w, "gelu_tanh"), gate, up)
    tanh = np.tanh(np.sqrt(2 / np.pi) * (g + 0.044715 * g**3))
    np.testing.assert_allclose(got, g / 2 * (1 + tanh) * u, rtol=2e-3, atol=2e-3)

    got = run(lambda b, v, w: b.gated(v, w, "sigmoid"), gate, up)
    np.testing.assert_allclose(got, u / (1 + np.exp(-g)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(
        run(lambda b, v, w: b.gated(v, w, "bilinear"), gate, up), gate * up
    )

    got = run(lambda b, v, w: b.gated(v, w, "swiglu_clamped", alpha=1.702, limit=7.0), gate, up)
    g, u = np.minimum(g, 7), np.clip(u, -7, 7)
    np.testing.assert_allclose(got, g / (1 + np.exp(-1.702 * g)) * (u + 1), rtol=1e-5, atol=1e-5)


def test_softplus(rng: np.random.Generator) -> None:
    x = np.concatenate([rng.normal(size=(1, 16)), [[-80, -20, 0, 20, 80, 1e30] + [1] * 10]])
    bias = rng.normal(size=16)
    got = run(lambda b, v: b.softplus(v, weight(bias)), x.astype(np.float32))
    np.testing.assert_allclose(got, np.logaddexp(0, x + bias), rtol=1e-5)


def test_activations_of_extreme_gates_are_finite() -> None:
    gate = np.array([[-1e18, -200.0, 200.0, 1e18]], np.float32)
    for activation in (*UNARY, "swiglu_clamped"):
        got = run(lambda b, v, w, a=activation: b.gated(v, w, a), gate, np.ones_like(gate))
        assert np.isfinite(got).all(), activation
