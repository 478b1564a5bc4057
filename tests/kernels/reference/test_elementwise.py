"""Norms, products and what is done to each number, against closed forms in float64."""

from dataclasses import replace

import numpy as np
import pytest

from edgellm.kernels import reference
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.ops import Builder
from edgellm.kernels.reference import common
from tests.kernels.reference.programs import NO_KV, rows_batch, run, weight


def test_embedding_rows_are_scaled(rng: np.random.Generator) -> None:
    table = rng.normal(size=(3, 32)).astype(np.float32)
    b = Builder()
    stored = weight(table, "Q8_0")
    executable = reference.load(b.finish(logits=b.embed(stored, scale=2.0)), NO_KV)
    got = executable.run(replace(rows_batch(2), input_ids=np.array([2, 0], np.int32)))["logits"]
    np.testing.assert_array_equal(got, 2 * dequantize_rows(stored.format, stored.data)[[2, 0]])


@pytest.mark.parametrize("heads", [1, 4])
def test_rms_norm_of_each_part(rng: np.random.Generator, heads: int) -> None:
    x = rng.normal(size=(3, 32)).astype(np.float32) * 100
    w = rng.normal(size=32 // heads).astype(np.float32)
    got = run(lambda b, v: b.rms_norm(v, weight(w), 1e-2, heads), x)
    parts = x.astype(np.float64).reshape(3, heads, -1)
    want = parts / np.sqrt((parts**2).mean(-1, keepdims=True) + 1e-2) * w
    np.testing.assert_allclose(got, want.reshape(3, 32), rtol=1e-5)


def test_rms_norm_may_have_a_weight_for_each_part(rng: np.random.Generator) -> None:
    x, w = rng.normal(size=(3, 32)).astype(np.float32), rng.normal(size=(4, 8)).astype(np.float32)
    got = run(lambda b, v: b.rms_norm(v, weight(w), 1e-2, 4), x)
    plain = run(lambda b, v: b.rms_norm(v, None, 1e-2, 4), x)
    np.testing.assert_allclose(got, plain * w.reshape(-1), rtol=1e-6)


@pytest.mark.parametrize("heads, rows", [(1, 1), (4, 1), (4, 4)])
def test_layer_norm_of_each_part(rng: np.random.Generator, heads: int, rows: int) -> None:
    x = rng.normal(3, 100, size=(3, 32)).astype(np.float32)
    w, bias = rng.normal(size=(2, rows, 32 // heads)).astype(np.float32)
    got = run(lambda b, v: b.layer_norm(v, weight(w), weight(bias), 1e-2, heads), x)
    parts = x.astype(np.float64).reshape(3, heads, -1)
    centred = parts - parts.mean(-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-2)
    plain = run(lambda b, v: b.layer_norm(v, None, None, 1e-2, heads), x)
    np.testing.assert_allclose(plain, want.reshape(3, 32), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got, (want * w + bias).reshape(3, 32), rtol=1e-5, atol=1e-5)


def test_positions_are_looked_up_by_place(rng: np.random.Generator) -> None:
    table = rng.normal(size=(9, 4)).astype(np.float32)
    got = run(
        lambda b, v: b.embed_positions(weight(table)),
        np.zeros((3, 4), np.float32),
        batch=rows_batch(3, [8, 0, 5]),
    )
    np.testing.assert_array_equal(got, table[[8, 0, 5]])


def test_columns_have_factors_and_numbers_limits(rng: np.random.Generator) -> None:
    x, factors = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    np.testing.assert_array_equal(
        run(lambda b, v: b.multiply_columns(v, weight(factors)), x), x * factors
    )
    np.testing.assert_array_equal(run(lambda b, v: b.clamp(v, 0.5), x), np.clip(x, -0.5, 0.5))


def test_columns_of_each_part(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 12)).astype(np.float32)
    np.testing.assert_array_equal(run(lambda b, v: b.columns(v, 3, 5), x), x[:, 3:8])
    got = run(lambda b, v: b.columns(v, 1, 2, parts=3), x)
    np.testing.assert_array_equal(got, x[:, [1, 2, 5, 6, 9, 10]])
    with pytest.raises(ValueError, match="columns 2 to 5 of 4"):
        run(lambda b, v: b.columns(v, 2, 3, parts=3), x)


def test_rms_norm_without_a_weight_keeps_epsilon_inside_the_root() -> None:
    got = run(lambda b, v: b.rms_norm(v, None, 4.0), np.zeros((1, 4), np.float32))
    np.testing.assert_array_equal(got, 0)
    got = run(lambda b, v: b.rms_norm(v, None, 3.0), np.ones((1, 4), np.float32))
    np.testing.assert_allclose(got, 0.5)


@pytest.mark.parametrize("format_name", ["F32", "F16", "Q8_0"])
def test_matmul_scales_before_the_bias(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    monkeypatch.setattr(common, "STRIP_WEIGHTS", 100)  # strips of three rows
    x = rng.normal(size=(4, 32)).astype(np.float32)
    w = weight(rng.normal(size=(8, 32)).astype(np.float32), format_name)
    bias, scale = rng.normal(size=8).astype(np.float32), np.array([3.0], np.float32)
    stored = dequantize_rows(w.format, w.data).astype(np.float64)
    got = run(lambda b, v: b.matmul(v, w, weight(bias), weight(scale)), x)
    np.testing.assert_allclose(got, 3 * (x @ stored.T) + bias, rtol=1e-4, atol=1e-5)
    got = run(lambda b, v: b.matmul(v, w, scale=weight(scale)), x)
    np.testing.assert_allclose(got, 3 * (x @ stored.T), rtol=1e-4, atol=1e-5)


def test_add_multiply_and_softcap(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, 3, 8)).astype(np.float32)
    got = run(lambda b, v, w: b.softcap(b.multiply(b.add(v, w), 40.0), 30.0), x, y)
    want = 30 * np.tanh((x.astype(np.float64) + y) * 40 / 30)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_select_outputs_and_named_outputs(rng: np.random.Generator) -> None:
    x = rng.normal(size=(4, 8)).astype(np.float32)
    b = Builder()
    hidden = b.embed(weight(x))
    program = b.finish(hidden=hidden, logits=b.select_outputs(b.multiply(hidden, 2.0)))
    batch = replace(rows_batch(4), logits_rows=np.array([1, 3], np.int32))
    outputs = reference.load(program, NO_KV).run(batch)
    np.testing.assert_array_equal(outputs["hidden"], x)
    np.testing.assert_array_equal(outputs["logits"], 2 * x[[1, 3]])


def test_gates_that_few_pass(rng: np.random.Generator) -> None:
    x = rng.normal(3, 5, size=(4, 1000)).astype(np.float32)
    got = run(lambda b, v: b.gaussian_top_k(v, 1.6448536), x)
    cut = x.mean(axis=1, keepdims=True) + 1.6448536 * x.std(axis=1, keepdims=True)
    np.testing.assert_allclose(got, np.maximum(x - cut, 0), rtol=1e-4, atol=1e-4)
    assert 0.03 < (got > 0).mean() < 0.07
