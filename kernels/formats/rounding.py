"""Types whose scales can be fixed before their weights are rounded, one by one."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgellm.kernels.formats.format import Blocks, Rounding, Scales, Values
from edgellm.kernels.formats.search import Levels
from edgellm.kernels.formats.super_blocks import Affine, Scaled


def affine_rounding(
    fit: Callable[[Values, Values | None], Affine], pack: Callable[[Affine], Blocks], top: int
) -> Rounding:
    """Of blocks with scales and minimums and levels from 0 to `top`."""

    def fitted(values: Values, importance: Values | None) -> Scales:
        found = fit(values, importance)
        return Scales(found, found.d * found.scales, -found.dmin * found.mins)

    def packed(scales: Scales, levels: Values | None) -> Blocks:
        found: Affine = scales.found
        return pack(found if levels is None else replace(found, q=levels.reshape(found.q.shape)))

    return Rounding(fitted, lambda values: np.clip(np.rint(values), 0, top), packed)


def scaled_rounding(
    fit: Callable[[Values, Values | None], Scaled], pack: Callable[[Scaled], Blocks], levels: Levels
) -> Rounding:
    """Of blocks with scales alone."""

    def fitted(values: Values, importance: Values | None) -> Scales:
        found = fit(values, importance)
        steps = found.d * found.scales
        return Scales(found, steps, np.zeros_like(steps))

    def packed(scales: Scales, levels: Values | None) -> Blocks:
        found: Scaled = scales.found
        if levels is not None:
            found = replace(found, levels=levels.reshape(found.levels.shape))
        return pack(found)

    return Rounding(fitted, lambda values: levels.nearest(values, values), packed)
