"""Ops on the heads of a row, against closed forms in float64."""

import numpy as np

from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Value
from tests.kernels.reference.programs import run, weight


def test_heads_by_factors_of_their_own() -> None:
    x, factors = np.arange(12.0).reshape(2, 6), np.array([[1, 10, 100], [2, 0, -1]], np.float64)
    got = run(lambda b, *v: b.scale_heads(*v), x, factors)
    np.testing.assert_array_equal(got, [[0, 1, 20, 30, 400, 500], [12, 14, 0, 0, -10, -11]])


def test_heads_are_cut_joined_and_multiplied_each_alone(rng: np.random.Generator) -> None:
    x = rng.normal(size=(5, 3 * 8)).astype(np.float32)
    w = rng.normal(size=(3, 7, 4)).astype(np.float32)

    def build(b: Builder, v: Value) -> Value:
        low, high = b.columns(v, 0, 4, 3), b.columns(v, 4, 4, 3)
        product = b.head_matmul(high, weight(w.reshape(21, 4)), 3, slice(2, 7))
        return b.concat_heads(low, product, 3)

    parts = x.reshape(5, 3, 8)
    want = np.concatenate([parts[..., :4], np.einsum("hnk,thk->thn", w[:, 2:], parts[..., 4:])], 2)
    np.testing.assert_allclose(run(build, x), want.reshape(5, -1), rtol=1e-5, atol=1e-5)
