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
    best: Scaled | None = None
    error = np.full_like(d, np.inf)
    for steps in rounds:
        found = _best_scales(x, w, levels, d, _neighbours(scale * inverse(d), allowed, steps))
        tried = _error(x, w, d, found)
        best, error = _better(best, error, Scaled(d, *found), tried)
        integers_, level = found
        scale = ratio(sums(wx, level), sums(w * level, level))[..., 0]
        whole = (integers_[..., None] * level).reshape(len(x), -1)
        flat = w.reshape(len(x), -1)
        d = as_half(ratio(sums(wx.reshape(len(x), -1), whole), sums(flat * whole, whole)))
    assert best is not None
    return best


def _neighbours(near: Values, allowed: Values, steps: Sequence[int]) -> list[Values]:
    """Those of the ascending `allowed` so many steps from the nearest."""
    at = np.searchsorted((allowed[1:] + allowed[:-1]) / 2, near)
    return [allowed[np.clip(at + step, 0, len(allowed) - 1)] for step in steps]


def _best_scales(
    x: Values, w: Values, levels: Levels, d: Values, choices: list[Values]
) -> tuple[Values, Values]:
    """Of several integer scales (n, groups) the one of least error for each group, with levels."""
    best, error = choices[0], np.full((*x.shape[:2], 1), np.inf, np.float32)
    best_level = np.zeros_like(x)
    for choice in choices:
        step = (d * choice)[..., None]
        level = levels.nearest(x * inverse(step), w)
        tried = sums(w, np.square(x - step * level))
        better = tried < error
        error = np.where(better, tried, error)
        best = np.where(better[..., 0], choice, best)
        best_level = np.where(better, level, best_level)
    return best, best_level


def _error(x: Values, w: Values, d: Values, found: tuple[Values, Values]) -> Values:
    scales, level = found
    difference = x - (d * scales)[..., None] * level
    return total(sums(w, np.square(difference))[..., 0])


def _better(old: Scaled | None, error: Values, new: Scaled, tried: Values) -> tuple[Scaled, Values]:
    if old is None:
        return new, tried
    better = tried < error
    return Scaled(
        np.where(better, new.d, old.d),
        np.where(better, new.scales, old.scales),
        np.where(better[..., None], new.levels, old.levels),
    ), np.where(better, tried, error)


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
    best: Affine | None = None
    error = np.full_like(d, np.inf)
    for _ in range(ROUNDS):
        tried, found = _best_affine(x, w, top, scale_top, d, dmin, scale, minimum)
        if best is None:
            best, error = found, tried
        else:
            better = tried < error
            error = np.where(better, tried, error)
            best = Affine(
                *(
                    np.where(better if a.ndim == 2 else better[..., None], a, b)
                    for a, b in zip(_fields(found), _fields(best), strict=True)
                )
            )
        scale, minimum = _refit_groups(x, w, found)
        d, dmin = _refit_halves(x, w, found)
    assert best is not None
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
    near_scale, near_min = scale * inverse(d), minimum * inverse(dmin)
    error = np.full((*x.shape[:2], 1), np.inf, np.float32)
    scales, mins, q = np.zeros_like(scale), np.zeros_like(scale), np.zeros_like(x)
    for up in (0, -1, 1):
        for more in (0, -1, 1):
            tried_scales = np.clip(np.rint(near_scale) + up, 0, scale_top)
            tried_mins = np.clip(np.rint(near_min) + more, 0, scale_top)
            step, offset = (d * tried_scales)[..., None], (dmin * tried_mins)[..., None]
            tried_q = np.rint((x + offset) * inverse(step))
            np.clip(tried_q, 0, top, out=tried_q)
            tried = sums(w, np.square(x + offset - step * tried_q))
            better = tried < error
            error = np.where(better, tried, error)
            scales = np.where(better[..., 0], tried_scales, scales)
            mins = np.where(better[..., 0], tried_mins, mins)
            q = np.where(better, tried_q, q)
    return total(error[..., 0]), Affine(d, dmin, scales, mins, q)


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
