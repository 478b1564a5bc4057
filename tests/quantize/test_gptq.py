"""Error compensation: less error of products for correlated inputs, nothing new without them."""

import numpy as np
import pytest

from edgellm.kernels.formats import FORMATS, Format, dequantize_rows, quantize_rows
from edgellm.kernels.formats.format import Values
from edgellm.quantize.gptq import compensated

ROUNDED = [fmt for fmt in FORMATS.values() if fmt.rounding is not None]
ROWS, COLUMNS = 24, 512
every = pytest.mark.parametrize("fmt", ROUNDED, ids=lambda fmt: fmt.name)


def weights() -> Values:
    return np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)


def correlated() -> Values:
    """X'X of inputs with few directions that matter and some noise."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((900, 40)) @ rng.standard_normal((40, COLUMNS))
    x += rng.standard_normal((900, COLUMNS))
    return (x.T @ x).astype(np.float32)


def error(values: Values, stored: np.ndarray, fmt: Format, moments: Values) -> float:
    lost = dequantize_rows(fmt, stored).astype(np.float64) - values
    return float(np.einsum("ri,ij,rj->", lost, moments.astype(np.float64), lost))


def test_what_can_be_rounded_so() -> None:
    assert {fmt.name for fmt in ROUNDED} == {
        *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
    }


@every
def test_products_lose_less(fmt: Format) -> None:
    values, moments = weights(), correlated()
    plain = quantize_rows(fmt, values, np.diag(moments))
    better = compensated(values, moments, fmt)
    assert better.shape == plain.shape and better.dtype == np.uint8
    assert error(values, better, fmt, moments) < 0.7 * error(values, plain, fmt, moments)


@every
def test_inputs_that_have_nothing_to_do_with_each_other(fmt: Format) -> None:
    values, moments = weights(), np.eye(COLUMNS, dtype=np.float32)
    plain = quantize_rows(fmt, values, np.ones(COLUMNS, np.float32))
    got = error(values, compensated(values, moments, fmt), fmt, moments)
    assert got == pytest.approx(error(values, plain, fmt, moments), rel=0.02)


@every
@pytest.mark.parametrize("moments", ["zero", "one direction"])
def test_inputs_that_say_little(fmt: Format, moments: str) -> None:
    """Moments without an inverse: numbers come out, as good as plain ones."""
    values = weights()
    values[0] = 0
    values[1] = 1e-40
    seen = np.zeros((COLUMNS, COLUMNS), np.float32)
    if moments == "one direction":
        seen[:] = 1
    back = dequantize_rows(fmt, compensated(values, seen, fmt))
    assert np.isfinite(back).all() and not back[0].any()
    assert np.square(back - values).sum() < 0.5 * np.square(values).sum()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    values, moments = weights(), correlated()
    values[3, 3] = bad
    with pytest.raises(ValueError, match="cannot quantise"):
        compensated(values, moments, ROUNDED[0])
    moments[1, 1] = bad
    with pytest.raises(ValueError, match="cannot quantise"):
        compensated(weights(), moments, ROUNDED[0])
    plain = next(fmt for fmt in FORMATS.values() if fmt.name == "Q8_0")
    with pytest.raises(ValueError, match="one by one"):
        compensated(weights(), correlated(), plain)
