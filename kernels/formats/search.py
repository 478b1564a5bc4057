"""How quantisers find scales: the least sum of importance times squared error, in numpy.

A quantiser has `x`, float32 (n, ..., k): k weights that share a scale, and importances `w` of the
same shape, above zero. Levels are what a stored weight is in units of its scale: integers of a
range, or values of a codebook or grid, found by a `Nearest`. For given levels the best scale is a
least-squares fit in closed form; the levels are those of the best of several starting scales, and
rounding to levels and fitting scales go by turns from there. Knows no layouts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats.format import Values

_NOTABLY = np.float32(1 + 2e-6)  # what is better by less is rounding: the earlier start is kept
ROUNDS = 3  # turns of rounding and fitting; later ones change next to nothing

# (weights in units of their scale, importances) -> the level of each, float32. A level may depend
# on its neighbours, as in the types whose weights are rows of a grid.
Nearest = Callable[[Values, Values], Values]


@dataclass(frozen=True)
class Levels:
    """nearest: see Nearest. starts: levels that the weight of largest magnitude is tried as.

    positive: scales are; else the weight of largest magnitude becomes the level with its sign.
    """

    nearest: Nearest
    starts: tuple[float, ...]
    positive: bool = False


def integers(low: int, high: int) -> Levels:
    """The whole numbers from `low` to `high`."""

    def nearest(scaled: Values, w: Values) -> Values:
        rounded: Values = np.rint(scaled)
        return np.clip(rounded, low, high, out=rounded)

    return Levels(nearest, (*_around(low), *(_around(high) if high != -low else ())))


def codebook(values: npt.NDArray[np.int8], positive: bool = False) -> Levels:
    """The whole numbers of a table, in any order."""
    # Not np.unique, which imports numpy.ma.
    ordered = np.array(sorted({*values.tolist()}), np.float32)
    low, high = float(ordered[0]), float(ordered[-1])
    # Middles between whole numbers are multiples of a half: so many halves above `low` tell all.
    halves = np.arange(0, 2 * (high - low) + 1) / 2 + low
    table = ordered[np.searchsorted((ordered[1:] + ordered[:-1]) / 2, halves, "right")]

    def nearest(scaled: Values, w: Values) -> Values:
        at = ((np.clip(scaled, low, high) - np.float32(low)) * 2).astype(np.int16)
        return table[at]

    if positive:
        return Levels(nearest, (float(ordered[ordered > 0][0]), *_around(high)), positive)
    return Levels(nearest, (*_around(low), *(_around(high) if high != -low else ())))


def _around(end: float) -> tuple[float, ...]:
    """What the largest weight is tried as, where `end` is the outermost level."""
    return tuple(end * share for share in np.linspace(0.82, 1.13, 11).tolist())


def inverse(scales: Values) -> Values:
    """1 / scales, or 0 where that is not finite (a block of zeros, or nearly)."""
    with np.errstate(divide="ignore", over="ignore"):
        result = 1 / scales
    return np.where(np.isfinite(result), result, np.float32(0))


def round_away(values: Values) -> Values:
    """Rounded to whole numbers, halves away from zero, as C's roundf."""
    whole = np.trunc(values)
    rounded: Values = whole + np.trunc(2 * (values - whole))
    return rounded


def as_half(values: Values) -> Values:
    """Rounded to halves, as float32."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def sums(a: Values, b: Values) -> Values:
    """Sums of products over the last axis, which is kept."""
    products: Values = np.einsum("...k,...k->...", a, b)[..., None]
    return products


def total(a: Values) -> Values:
    """Sums over the last axis, which is kept."""
    added: Values = a.sum(axis=-1, keepdims=True)
    return added


def take_over(old: Values, new: Values, better: npt.NDArray[np.bool_]) -> None:
    """Writes those of `new` into `old` that are better: bool (n) or (n, groups), of whole rows.

    By their numbers, which takes a quarter of the time of a condition spread over each row.
    """
    chosen, rows = np.flatnonzero(better), (better.size, -1)
    old.reshape(rows, copy=False)[chosen] = new.reshape(rows)[chosen]


def peak(x: Values) -> Values:
    """The value of largest magnitude in the last axis, which is kept, with its sign."""
    return np.take_along_axis(x, np.abs(x).argmax(axis=-1)[..., None], axis=-1)


def ratio(numerator: Values, denominator: Values) -> Values:
    """numerator / denominator, 0 where that is not finite."""
    with np.errstate(all="ignore"):
        result = numerator / denominator
    return np.where(np.isfinite(result), result, np.float32(0))


def fit_scale(x: Values, w: Values, levels: Levels) -> Values:
    """The scale (..., 1) with the least error of scale * level."""
    to_peak = inverse(np.abs(peak(x)) if levels.positive else peak(x))
    scale = np.zeros_like(to_peak)
    won = np.zeros_like(to_peak)  # by how much the error is less than that of zeros
    wx = w * x
    for start in (*levels.starts, *[None] * ROUNDS):
        tried = inverse(scale) if start is None else np.float32(start) * to_peak
        level = levels.nearest(x * tried, w)
        product = sums(wx, level)
        fitted = ratio(product, sums(w * level, level))
        gain = product * fitted
        better = (gain > _NOTABLY * won) & ((fitted > 0) | (not levels.positive))
        won, scale = np.where(better, gain, won), np.where(better, fitted, scale)
    return scale


def fit_affine(
    x: Values, w: Values, top: int, least: Sequence[float], free_min: bool = False
) -> tuple[Values, Values]:
    """Scale and minimum (..., 1) with the least error of scale * q + minimum, q from 0 to `top`.

    least: what is tried for the number of steps between the smallest and the largest weight.
    free_min: whether the minimum may be above zero.
    """
    low = x.min(axis=-1, keepdims=True)
    if not free_min:
        low = np.minimum(low, 0)
    extent = x.max(axis=-1, keepdims=True) - low
    wx, sum_w = w * x, total(w)
    sum_x, sum_xx = total(wx), sums(wx, x)
    scale, minimum = np.zeros_like(low), low
    error = sums(w, np.square(x - low))
    for steps in (*least, *[None] * ROUNDS):
        if steps is None:
            q = np.rint((x - minimum) * inverse(scale))
        else:
            q = np.rint((x - low) * (np.float32(steps) * inverse(extent)))
        np.clip(q, 0, top, out=q)
        wq = w * q
        sum_q, sum_qq, sum_xq = total(wq), sums(wq, q), sums(wq, x)
        s, m = line(sum_w, sum_q, sum_qq, sum_x, sum_xq, free_min)
        tried = sum_xx + s * (s * sum_qq - 2 * sum_xq) + m * (m * sum_w + 2 * s * sum_q - 2 * sum_x)
        better = tried < error
        error = np.where(better, tried, error)
        scale, minimum = np.where(better, s, scale), np.where(better, m, minimum)
    return scale, minimum


def line(
    sum_w: Values, sum_q: Values, sum_qq: Values, sum_x: Values, sum_xq: Values, free_min: bool
) -> tuple[Values, Values]:
    """Slope and intercept of the weighted line through (q, x), the latter at most 0 if not free."""
    determinant = sum_w * sum_qq - sum_q * sum_q
    slope = ratio(sum_w * sum_xq - sum_q * sum_x, determinant)
    intercept = ratio(sum_qq * sum_x - sum_q * sum_xq, determinant)
    if not free_min:
        same = determinant <= np.float32(1e-6) * sum_w * sum_qq  # all q are: no line, but a point
        above = (intercept > 0) | same
        slope = np.where(above, ratio(sum_xq, sum_qq), slope)
        intercept = np.where(above, np.float32(0), intercept)
    return slope, intercept
