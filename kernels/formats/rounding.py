"""Types whose scales can be fixed before their weights are rounded, one by one."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgellm.kernels.formats.format import Blocks, Rounding, Scales, Values
from edgellm.kernels.formats.search import Levels, as_half, fit_affine, fit_scale, inverse
from edgellm.kernels.formats.super_blocks import Affine, Scaled


def affine_rounding(
    fit: Callable[[Values, Values | None], Affine], pack: Callable[[Affine], Blocks], top: int
) -> Rounding:
    """Of super-blocks with scales and minimums and levels from 0 to `top`."""

    def fitted(values: Values, importance: Values | None) -> Scales:
        found = fit(values, importance)
        offsets = -found.dmin * found.mins
        return Scales(found, found.d * found.scales, offsets, found.q.reshape(len(values), -1))

    def packed(scales: Scales, levels: Values) -> Blocks:
        found: Affine = scales.found
        return pack(replace(found, q=levels.reshape(found.q.shape)))

    return Rounding(fitted, lambda values: np.clip(np.rint(values), 0, top), packed)


def scaled_rounding(
    fit: Callable[[Values, Values | None], Scaled], pack: Callable[[Scaled], Blocks], levels: Levels
) -> Rounding:
    """Of super-blocks with scales alone."""

    def fitted(values: Values, importance: Values | None) -> Scales:
        found = fit(values, importance)
        steps = found.d * found.scales
        return Scales(found, steps, np.zeros_like(steps), found.levels.reshape(len(values), -1))

    def packed(scales: Scales, levels: Values) -> Blocks:
        found: Scaled = scales.found
        return pack(replace(found, levels=levels.reshape(found.levels.shape)))

    return Rounding(fitted, lambda values: levels.nearest(values, values), packed)


def single_scale(levels: Levels, pack: Callable[[Values, Values], Blocks]) -> Rounding:
    """Of blocks with one half as their scale. pack: (scale (n, 1), levels) -> bytes."""

    def nearest(values: Values) -> Values:
        return levels.nearest(values, values)

    def fitted(values: Values, importance: Values | None) -> Scales:
        w = np.ones_like(values) if importance is None else importance
        d = as_half(fit_scale(values, w, levels))
        return Scales(d, d, np.zeros_like(d), nearest(values * inverse(d)))

    return Rounding(fitted, nearest, lambda scales, chosen: pack(scales.found, chosen))


def scale_and_minimum(top: int, pack: Callable[[Values, Values, Values], Blocks]) -> Rounding:
    """Of blocks with halves as scale and minimum. pack: (scale, minimum, levels) -> bytes."""
    least = np.arange(top - 2, top + 1, 0.25).tolist()

    def nearest(values: Values) -> Values:
        return np.clip(np.rint(values), 0, top)

    def fitted(values: Values, importance: Values | None) -> Scales:
        w = np.ones_like(values) if importance is None else importance
        d, m = map(as_half, fit_affine(values, w, top, least, free_min=True))
        return Scales((d, m), d, m, nearest((values - m) * inverse(d)))

    def packed(scales: Scales, chosen: Values) -> Blocks:
        d, m = scales.found
        return pack(d, m, chosen)

    return Rounding(fitted, nearest, packed)
