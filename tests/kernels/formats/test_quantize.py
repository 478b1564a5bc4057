"""Quantisers: the bytes of the `gguf` package, bounded error, refusal of what cannot be stored."""

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from edgellm.kernels.formats import FORMATS, Format, by_name, dequantize_rows, quantize_rows
from edgellm.kernels.formats.format import Values

ALL = list(FORMATS.values())
PACKED = [fmt for fmt in ALL if fmt.block_size > 1]
# Those that ggml's reference rounds plainly, and the package writes as well.
PLAIN = ["F32", "F64", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
PLAIN += ["TQ1_0", "TQ2_0", "MXFP4"]
STEPS = {"Q4_0": 8, "Q4_1": 15, "Q5_0": 16, "Q5_1": 31, "Q8_0": 127}

# Squared error over squared weights of normal random numbers, importance all the same: about a
# tenth above what the quantisers reach.
EXPECTED_ERROR = {
    **{"Q1_0": 0.42, "Q2_0": 0.14, "TQ1_0": 0.22, "TQ2_0": 0.22},
    **{"IQ1_S": 0.22, "IQ1_M": 0.19, "IQ2_XXS": 0.12, "IQ2_XS": 0.09, "IQ2_S": 0.075},
    **{"IQ3_XXS": 0.045, "IQ3_S": 0.025, "IQ4_NL": 0.008, "IQ4_XS": 0.008},
    **{"Q2_K": 0.09, "Q3_K": 0.03, "Q4_K": 0.007, "Q5_K": 0.0017, "Q6_K": 0.0004},
    **{"Q4_0": 0.01, "Q4_1": 0.008, "Q5_0": 0.0025, "Q5_1": 0.0018, "Q8_0": 4e-5},
    **{"MXFP4": 0.015, "NVFP4": 0.012},
}

every_packed = pytest.mark.parametrize("fmt", PACKED, ids=lambda fmt: fmt.name)


def test_every_format_is_written() -> None:
    assert all(fmt.quantize is not None for fmt in ALL)
    assert {fmt.name for fmt in PACKED} == EXPECTED_ERROR.keys()


def samples(fmt: Format) -> Values:
    """Rows of many magnitudes, of zeros, of one value, of exact ties, of denormals."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((64, 2 * fmt.block_size)) * 10.0 ** rng.integers(-6, 4, (64, 1))
    rows[0] = 0
    rows[1] = 3.25
    rows[2] = -1
    rows[3] = np.arange(rows.shape[1]) / 2 - 15.5
    rows[4] = 1e-40
    rows[5, ::2] = 0
    rows[6] = np.abs(rows[6])
    return rows.astype(np.float32)


@pytest.mark.parametrize("fmt", list(map(by_name, PLAIN)), ids=lambda fmt: fmt.name)
def test_bytes_are_those_of_gguf(fmt: Format) -> None:
    rows = samples(fmt)
    got = quantize_rows(fmt, rows)
    assert got.dtype == np.uint8 and got.shape == (64, fmt.row_bytes(rows.shape[1]))
    if fmt.name == "F64":
        assert np.array_equal(got, rows.astype(np.float64).view(np.uint8))
        return
    with np.errstate(all="ignore"):
        want = quants.quantize(rows, GGMLQuantizationType(fmt.type_id)).view(np.uint8)
    # In the row of denormals gguf multiplies by an infinite inverse.
    assert np.array_equal(np.delete(got, 4, axis=0), np.delete(want, 4, axis=0))


@pytest.mark.parametrize("name", ["F32", "F64"])
def test_wide_floats_return_unchanged(name: str) -> None:
    fmt, rows = by_name(name), samples(by_name(name))
    assert np.array_equal(dequantize_rows(fmt, quantize_rows(fmt, rows)), rows)


def test_bf16_keeps_nan_and_infinity() -> None:
    fmt = by_name("BF16")
    rows = np.array([[np.nan, np.inf, -np.inf, -np.nan, 1.0]], np.float32)
    assert np.array_equal(dequantize_rows(fmt, quantize_rows(fmt, rows)), rows, equal_nan=True)


@given(
    st.sampled_from([by_name(name) for name in STEPS]),
    arrays(np.float32, (3, 32), elements=st.floats(-60000, 60000, width=32)),
)
@settings(max_examples=200, deadline=None)
def test_error_is_at_most_a_step(fmt: Format, rows: Values) -> None:
    """Half a step by rounding; one at the clipped end of the signed types; and the half's own."""
    back = dequantize_rows(fmt, quantize_rows(fmt, rows))
    low, high = rows.min(axis=1), rows.max(axis=1)
    extent = high - low if fmt.has_min else np.maximum(high, -low)
    step = extent.astype(np.float64) / STEPS[fmt.name]
    largest = np.maximum(high, -low).astype(np.float64)
    slack = (extent + largest) * 2.0**-10 + (STEPS[fmt.name] + 2) * 2.0**-24
    width = 0.5 if fmt.has_min or fmt.name == "Q8_0" else 1
    error = np.abs(back.astype(np.float64) - rows).max(axis=1)
    assert (error <= width * step + slack).all()


@every_packed
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_cannot_be_scaled_is_refused(fmt: Format, bad: float, weighted: bool) -> None:
    rows = np.ones((1, 256), np.float32)
    rows[0, 40] = bad
    with pytest.raises(ValueError, match="cannot quantise"):
        quantize_rows(fmt, rows, np.ones(256, np.float32) if weighted else None)


def relative_error(fmt: Format, rows: Values, stored: Values, importance: Values | float) -> float:
    difference = dequantize_rows(fmt, stored).astype(np.float64) - rows
    return float((importance * difference**2).sum() / (importance * rows.astype(float) ** 2).sum())


@every_packed
def test_error_of_normal_weights(fmt: Format) -> None:
    rows = np.random.default_rng(1).standard_normal((16, 512)).astype(np.float32) / 32
    importance = np.ones(512, np.float32)
    error = relative_error(fmt, rows, quantize_rows(fmt, rows, importance), importance)
    assert error < EXPECTED_ERROR[fmt.name]


@every_packed
def test_importance_moves_the_error(fmt: Format) -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((16, 512)).astype(np.float32)
    importance = np.exp(2 * rng.standard_normal(512)).astype(np.float32)
    with_it = relative_error(fmt, rows, quantize_rows(fmt, rows, importance), importance)
    without = relative_error(fmt, rows, quantize_rows(fmt, rows), importance)
    assert with_it <= without if fmt.name == "Q8_0" else with_it < without


@every_packed
@pytest.mark.parametrize("importance", [None, 0.0, 1.0], ids=str)
def test_zeros_stay_and_constants_are_near(fmt: Format, importance: float | None) -> None:
    weights = None if importance is None else np.full(256, importance, np.float32)
    rows = np.zeros((6, 256), np.float32)
    rows[1], rows[2], rows[3, 7], rows[4] = 0.02, -3, 1, 1e-30
    back = dequantize_rows(fmt, quantize_rows(fmt, rows, weights))
    assert np.isfinite(back).all()
    assert not back[[0, 5]].any()
    assert (np.abs(back[1:3] - rows[1:3]) <= 0.3 * np.abs(rows[1:3])).all()


@every_packed
def test_a_block_depends_on_nothing_else(fmt: Format) -> None:
    rng = np.random.default_rng(3)
    rows, importance = rng.standard_normal((5, 256)), rng.random((5, 256))
    rows, importance = rows.astype(np.float32), importance.astype(np.float32)
    whole = quantize_rows(fmt, rows, importance)
    for i in range(5):
        assert np.array_equal(whole[i], quantize_rows(fmt, rows[i], importance[i]))


@pytest.mark.parametrize("name", [*PLAIN, "Q1_0", "Q2_0"])
def test_stored_weights_stay_as_they_are(name: str) -> None:
    fmt = by_name(name)
    rows = np.random.default_rng(4).standard_normal((32, 256)).astype(np.float32)
    once = dequantize_rows(fmt, quantize_rows(fmt, rows))
    assert np.array_equal(once, dequantize_rows(fmt, quantize_rows(fmt, once)))


@given(
    st.sampled_from(PACKED),
    arrays(np.float32, (2, 256), elements=st.floats(-1000, 1000, width=32)),
    arrays(np.float32, (2, 256), elements=st.sampled_from(np.array([0, 1e-6, 1, 1e6], np.float32))),
)
@settings(max_examples=100, deadline=None)
def test_never_much_worse_than_zeros(fmt: Format, rows: Values, importance: Values) -> None:
    """Whatever comes in, numbers come out, and the error is at most that of storing nothing."""
    back = dequantize_rows(fmt, quantize_rows(fmt, rows, importance)).astype(np.float64)
    assert np.isfinite(back).all()
    # As the quantisers count: a weight of no importance counts a little.
    blocks = importance.astype(np.float64).reshape(-1, fmt.block_size)
    most = blocks.max(axis=1, keepdims=True)
    w = np.maximum(np.divide(blocks, most, out=np.ones_like(blocks), where=most > 0), 1e-5)
    x, y = rows.astype(np.float64).reshape(w.shape), back.reshape(w.shape)
    stored, nothing = (w * (x - y) ** 2).sum(axis=1), (w * x**2).sum(axis=1)
    assert (stored <= 1.01 * nothing + 1e-9).all()
