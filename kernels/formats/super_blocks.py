"""How quantisers of super-blocks find scales: groups whose scales are integers times a half.

The scales of groups, the half they are multiples of, and the weights are fitted by turns, and
integers next to the rounded ones are tried: all for the least sum of importance times squared
error. Knows no layouts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgellm.kernels.formats.format import Values
from edgellm.kernels.formats.search import (
    ROUNDS,
    Levels,
    as_half,
    fit_affine,
    fit_scale,
    inverse,
    line,
    peak,
    ratio,
    sums,
    take_over,
    total,
)


@dataclass
class Scaled:
    """Blocks of groups under a scale of integers times a half.

    d: float32 (n, 1), a half. scales: float32 (n, groups), whole. levels: (n, groups, k).
    """

    d: Values
    scales: Values
    levels: Values


def fit_scaled(
    x: Values,
    w: Values,
    levels: Levels,
    allowed: Values,
    top: float,
    first: Levels | None = None,
    rounds: Sequence[Sequence[int]] = ((0, -1, 1),) * ROUNDS,
) -> Scaled:
    """The best `Scaled` for x (n, groups, k).

    allowed: what a group's scale may be in units of d, ascending. top: that of the largest scale,
    negative where negative ones reach further. first: levels for the first guess, when `levels`
    take long. rounds: of rounding and fitting, each with the steps that a group's scale is tried
    beside the nearest of `allowed`.
    """
    scale = fit_scale(x, w, first or levels)[..., 0]
    d = as_half(peak(scale) / np.float32(top))
    wx = w * x
    best = Scaled(d.copy(), np.zeros_like(scale), np.zeros_like(x))
    error = np.full_like(d, np.inf)
    for steps in rounds:
        found = _best_scales(x, w, levels, d, _neighbours(scale * inverse(d), allowed, steps))
        tried = _error(x, w, d, found)
        better = tried < error
        kept = error, best.d, best.scales, best.levels
        for old, new in zip(kept, (tried, d, *found), strict=True):
            take_over(old, new, better)
        integers_, level = found
        scale = ratio(sums(wx, level), sums(w * level, level))[..., 0]
        whole = (integers_[..., None] * level).reshape(len(x), -1)
        flat = w.reshape(len(x), -1)
        d = as_half(ratio(sums(wx.reshape(len(x), -1), whole), sums(flat * whole, whole)))
    return best


def _neighbours(near: Values, allowed: Values, steps: Sequence[int]) -> list[Values]:
    """Those of the ascending `allowed` so many steps from the nearest."""
    at = np.searchsorted((allowed[1:] + allowed[:-1]) / 2, near)
    return [allowed[np.clip(at + step, 0, len(allowed) - 1)] for step in steps]


def _best_scales(
    x: Values, w: Values, levels: Levels, d: Values, choices: list[Values]
) -> tuple[Values, Values]:
    """Of several integer scales (n, groups) the one of least error for each group, with levels."""
    best, *others = choices
    best_level, error = _rounded(x, w, levels, d, best)
    for choice in others:
        level, tried = _rounded(x, w, levels, d, choice)
        better = tried < error
        for old, new in ((error, tried), (best, choice), (best_level, level)):
            take_over(old, new, better)
    return best, best_level


def _rounded(
    x: Values, w: Values, levels: Levels, d: Values, scales: Values
) -> tuple[Values, Values]:
    """The nearest levels, and the error of each group (n, groups, 1)."""
    step = (d * scales)[..., None]
    level = levels.nearest(x * inverse(step), w)
    return level, sums(w, np.square(x - step * level))


def _error(x: Values, w: Values, d: Values, found: tuple[Values, Values]) -> Values:
    scales, level = found
    difference = x - (d * scales)[..., None] * level
    return total(sums(w, np.square(difference))[..., 0])


@dataclass
class Affine:
    """Blocks of groups whose scales and minimums are integers times two halves.

    d, dmin: float32 (n, 1), halves. scales, mins: float32 (n, groups), whole. q: (n, groups, k).
    A weight is d * scale * q - dmin * min.
    """

    d: Values
    dmin: Values
    scales: Values
    mins: Values
    q: Values


def fit_blocks(x: Values, w: Values, top: int, scale_top: int, least: Sequence[float]) -> Affine:
    """The best `Affine` for x (n, groups, k): q up to `top`, scales and minimums to `scale_top`."""
    scale, low = (part[..., 0] for part in fit_affine(x, w, top, least))
    minimum = -low
    d = as_half(scale.max(axis=1, keepdims=True) / np.float32(scale_top))
    dmin = as_half(minimum.max(axis=1, keepdims=True) / np.float32(scale_top))
    none = np.zeros_like(scale)
    best = Affine(d.copy(), dmin.copy(), none, none.copy(), np.zeros_like(x))
    error = np.full_like(d, np.inf)
    for _ in range(ROUNDS):
        tried, found = _best_affine(x, w, top, scale_top, d, dmin, scale, minimum)
        better = tried < error
        for old, new in zip((error, *_fields(best)), (tried, *_fields(found)), strict=True):
            take_over(old, new, better)
        scale, minimum = _refit_groups(x, w, found)
        d, dmin = _refit_halves(x, w, found)
    return best


def _fields(blocks: Affine) -> tuple[Values, ...]:
    return blocks.d, blocks.dmin, blocks.scales, blocks.mins, blocks.q


def _best_affine(
    x: Values,
    w: Values,
    top: int,
    scale_top: int,
    d: Values,
    dmin: Values,
    scale: Values,
    minimum: Values,
) -> tuple[Values, Affine]:
    """Rounds scales and minimums to integers near by, and weights to those: errors and blocks."""
    error = np.full((*x.shape[:2], 1), np.inf, np.float32)
    scales, mins, q = np.zeros_like(scale), np.zeros_like(scale), np.zeros_like(x)
    near_mins = _around(minimum * inverse(dmin), scale_top)
    raised = [(m, x + (dmin * m)[..., None]) for m in near_mins]
    for tried_scales in _around(scale * inverse(d), scale_top):
        step = (d * tried_scales)[..., None]
        per_step = inverse(step)
        for tried_mins, above in raised:
            tried_q = np.rint(above * per_step)
            np.clip(tried_q, 0, top, out=tried_q)
            tried = sums(w, np.square(above - step * tried_q))
            better = tried < error
            parts = (error, tried), (scales, tried_scales), (mins, tried_mins), (q, tried_q)
            for old, new in parts:
                take_over(old, new, better)
    return total(error[..., 0]), Affine(d, dmin, scales, mins, q)


def _around(near: Values, top: int) -> list[Values]:
    """The nearest whole number from 0 to `top`, the one below and the one above."""
    return [np.clip(np.rint(near) + step, 0, top) for step in (0, -1, 1)]


def _refit_groups(x: Values, w: Values, found: Affine) -> tuple[Values, Values]:
    wq = w * found.q
    scale, low = line(
        total(w), total(wq), sums(wq, found.q), total(w * x), sums(wq, x), free_min=False
    )
    return np.maximum(scale, 0)[..., 0], -low[..., 0]


def _refit_halves(x: Values, w: Values, found: Affine) -> tuple[Values, Values]:
    """d and dmin by least squares, scales, minimums and q held."""
    n = len(x)
    a = (found.scales[..., None] * found.q).reshape(n, -1)
    b = np.broadcast_to(found.mins[..., None], x.shape).reshape(n, -1)
    flat_w, flat_x = w.reshape(n, -1), x.reshape(n, -1)
    wa, wb = flat_w * a, flat_w * b
    aa, ab, bb, ax, bx = sums(wa, a), sums(wa, b), sums(wb, b), sums(wa, flat_x), sums(wb, flat_x)
    determinant = aa * bb - ab * ab
    d, dmin = ratio(ax * bb - bx * ab, determinant), ratio(ax * ab - bx * aa, determinant)
    usable = (d > 0) & (dmin > 0)
    return (
        as_half(np.where(usable, d, found.d)),
        as_half(np.where(usable, dmin, found.dmin)),
    )
