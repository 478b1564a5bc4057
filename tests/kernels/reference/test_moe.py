"""Routing to experts and their products, against closed forms in float64."""

import numpy as np
import pytest

from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.ops import Builder, ExpertGroups
from edgellm.kernels.program import Value
from tests.kernels.reference.programs import run, weight


@pytest.mark.parametrize("gating", ["softmax", "sigmoid", "softmax_selected"])
@pytest.mark.parametrize("normalize", [False, True])
def test_routing(rng: np.random.Generator, gating: str, normalize: bool) -> None:
    scores = rng.normal(size=(6, 5)).astype(np.float32)
    bias = np.array([0, 0, 0, 0, 9], np.float32)  # always chosen, never weighed
    got = run(
        lambda b, v: b.moe_route(
            v, 3, gating=gating, normalize=normalize, factor=2.5, selection_bias=weight(bias)
        ),
        scores,
    )
    s = scores.astype(np.float64)
    shape = {
        "softmax": lambda z: np.exp(z) / np.exp(z).sum(),
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
        "softmax_selected": lambda z: z,
    }[gating]
    for row, found in zip(s, got, strict=True):
        p = shape(row)
        chosen = sorted(range(5), key=lambda e: (-(p + bias)[e], e))[:3]
        weights = p[chosen]
        if gating == "softmax_selected":
            weights = np.exp(weights) / np.exp(weights).sum()
        if normalize:
            weights = weights / weights.sum()
        assert found[:3].tolist() == chosen and chosen[0] == 4
        np.testing.assert_allclose(found[3:], 2.5 * weights, rtol=1e-5)


@pytest.mark.parametrize("best", [1, 2])
def test_experts_are_chosen_from_the_best_groups(best: int) -> None:
    # The single best expert is in group 0, the best two together in group 2.
    scores = np.array([[9, 0, 1, 2, 8, 7, 5, 5]], np.float32)
    groups = ExpertGroups(4, 1, best)
    got = run(lambda b, v: b.moe_route(v, 2, gating="softmax_selected", groups=groups), scores)
    assert got[0, :2].tolist() == ([0, 1] if best == 1 else [4, 5])


def test_weights_too_small_to_normalise_stay_small() -> None:
    scores = np.full((1, 4), -80, np.float32)
    got = run(lambda b, v: b.moe_route(v, 2, gating="sigmoid", normalize=True), scores)
    assert np.all(got[0, 2:] < 1e-3)


def test_equal_scores_go_to_the_lower_expert() -> None:
    got = run(lambda b, v: b.moe_route(v, 2, gating="softmax"), np.ones((1, 6), np.float32))
    assert got[0, :2].tolist() == [0, 1]


@pytest.mark.parametrize("shared_input", [True, False])
def test_expert_products(rng: np.random.Generator, shared_input: bool) -> None:
    experts, height, columns, top_k, tokens = 4, 6, 32, 2, 5
    scores = rng.normal(size=(tokens, experts)).astype(np.float32)
    x = rng.normal(size=(tokens, columns * (1 if shared_input else top_k))).astype(np.float32)
    w = weight(rng.normal(size=(experts * height, columns)).astype(np.float32), "Q8_0")
    bias = rng.normal(size=(experts, height)).astype(np.float32)
    scale = rng.normal(size=experts).astype(np.float32)

    def build(b: Builder, s: Value, v: Value) -> Value:
        routing = b.moe_route(s, top_k, gating="softmax_selected")
        product = b.moe_matmul(
            v, routing, w, experts=experts, bias=weight(bias), scale=weight(scale)
        )
        assert product.width == top_k * height
        return b.moe_combine(product, routing)

    matrices = dequantize_rows(w.format, w.data).astype(np.float64).reshape(experts, height, -1)
    want = np.zeros((tokens, height))
    for t in range(tokens):
        chosen = np.argsort(-scores[t])[:top_k]
        gates = np.exp(scores[t][chosen].astype(np.float64))
        for r, e in enumerate(chosen):
            part = x[t].reshape(-1, columns)[0 if shared_input else r]
            want[t] += gates[r] / gates.sum() * (scale[e] * (matrices[e] @ part) + bias[e])
    np.testing.assert_allclose(run(build, scores, x), want, rtol=1e-4, atol=1e-4)
