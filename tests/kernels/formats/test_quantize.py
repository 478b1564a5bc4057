"""Quantisers: the bytes of the `gguf` package, bounded error, refusal of what cannot be stored."""

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from edgellm.kernels.formats import FORMATS, Format, by_name, dequantize_rows, quantize_rows
from edgellm.kernels.formats.format import Values

WRITABLE = [fmt for fmt in FORMATS.values() if fmt.quantize is not None]
PACKED = [fmt for fmt in WRITABLE if fmt.block_size > 1]
STEPS = {"Q4_0": 8, "Q4_1": 15, "Q5_0": 16, "Q5_1": 31, "Q8_0": 127}


def test_which_formats_are_written() -> None:
    floats = {"F32", "F16", "BF16", "F64"}
    assert {fmt.name for fmt in WRITABLE} == floats | STEPS.keys()


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


@pytest.mark.parametrize("fmt", WRITABLE, ids=lambda fmt: fmt.name)
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
    st.sampled_from(PACKED),
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


@pytest.mark.parametrize("fmt", PACKED, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_what_a_half_cannot_scale_is_refused(fmt: Format, bad: float) -> None:
    rows = np.ones((1, 64), np.float32)
    rows[0, 40] = bad
    with pytest.raises(ValueError, match="cannot quantise"):
        quantize_rows(fmt, rows)
