"""Writing the IQ types of grids: the row of least weighted error, then the layouts of
`iq_codebook.py` in reverse.

Every eight or four weights are compared with every row of the grid: exact, and a matrix product.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats.fields import half_bytes, pack_planes, pack_sequence
from edgellm.kernels.formats.format import Blocks, Values
from edgellm.kernels.formats.grids import grid
from edgellm.kernels.formats.search import Levels, codebook
from edgellm.kernels.formats.super_blocks import Scaled, fit_scaled

Rows = npt.NDArray[np.intp]

_SCORES = 1 << 17  # of a grid's rows at a time: what the processor's cache holds
_ROUNDS = ((0,), (0, -1, 1))


@dataclass(frozen=True)
class _Grid:
    """levels: rows of a grid. alone: what a single weight may be, for a first guess."""

    levels: Levels
    alone: Levels


def _best_rows(y: Values, w: Values, rows: Values) -> tuple[Rows, Values]:
    """For each y (m, k) the row of least error, and that error less the part that all share."""
    table = np.concatenate([np.square(rows), -2 * rows], axis=1).T.copy()
    best, score = np.empty(len(y), np.intp), np.empty(len(y), np.float32)
    step = max(1, _SCORES // len(rows))
    for start in range(0, len(y), step):
        part = slice(start, start + step)
        scores = np.concatenate([w[part], w[part] * y[part]], axis=1) @ table
        best[part] = scores.argmin(axis=1)
        score[part] = np.take_along_axis(scores, best[part, None], axis=1)[:, 0]
    return best, score


def _signs(y: Values, w: Values, even: bool) -> Values:
    """-1 or 1 for each of y (m, 8); with `even` the number of minuses is made even, at the weight
    where the wrong sign costs least."""
    signs = np.where(y < 0, np.float32(-1), np.float32(1))
    if even:
        odd = np.flatnonzero(signs.prod(axis=1) < 0)
        cheapest = (w[odd] * np.abs(y[odd])).argmin(axis=1)
        signs[odd, cheapest] *= -1
    return signs


def _signed_levels(name: str, even: bool) -> _Grid:
    """Rows of the grid `name` with signs, free or an even number of minuses in eight weights."""
    rows = grid(name).astype(np.float32)

    def nearest(scaled: Values, w: Values) -> Values:
        signs = _signs(scaled.reshape(-1, 8), w.reshape(-1, 8), even)
        y = (scaled.reshape(-1, 8) * signs).reshape(-1, rows.shape[1])
        best, _ = _best_rows(y, w.reshape(y.shape), rows)
        level: Values = (rows[best].reshape(-1, 8) * signs).reshape(scaled.shape)
        return level

    magnitudes = np.unique(grid(name))
    return _Grid(Levels(nearest, (), positive=True), _alone(np.append(magnitudes, -magnitudes)))


def _alone(numbers: npt.NDArray[np.int8]) -> Levels:
    """What a weight may be when its neighbours do not count."""
    return codebook(numbers, positive=True)


def _shifted_levels(shared: int) -> _Grid:
    """Eight times rows of the IQ1 grid, plus or minus 1, the same for `shared` weights."""
    rows = 8 * grid("IQ1_S").astype(np.float32)

    def nearest(scaled: Values, w: Values) -> Values:
        y, v = scaled.reshape(-1, 8), w.reshape(-1, 8)
        (up, up_score), (down, down_score) = (_best_rows(y, v, rows + s) for s in (1, -1))
        saved = (up_score - down_score).reshape(-1, shared // 8).sum(axis=1)
        minus = np.repeat(saved > 0, shared // 8)[:, None]
        level: Values = np.where(minus, rows[down] - 1, rows[up] + 1).reshape(scaled.shape)
        return level

    alone = _alone(np.array([-9, -7, -1, 1, 7, 9], np.int8))
    return _Grid(Levels(nearest, (), positive=True), alone)


def _keys(rows: Values) -> npt.NDArray[np.int64]:
    """A number for each row (m, k) of whole numbers from 0 to 63."""
    return rows.astype(np.int64) @ (np.int64(1) << 6 * np.arange(rows.shape[1], dtype=np.int64))


@cache
def _row_numbers(name: str) -> tuple[npt.NDArray[np.int64], Rows]:
    keys = _keys(grid(name).astype(np.float32) + (name == "IQ1_S"))
    order = np.argsort(keys)
    return keys[order], order


def _numbers(name: str, rows: Values) -> Rows:
    """The numbers (m,) of rows (m, k) of the grid `name`."""
    keys, order = _row_numbers(name)
    found: Rows = order[np.searchsorted(keys, _keys(rows + (name == "IQ1_S")))]
    return found


def _fit(
    values: Values,
    importance: Values | None,
    groups: int,
    levels: Callable[[], _Grid],
    scales: int,
    unit: float,
) -> Scaled:
    """Groups under scales 2s + 1, s below `scales`, in units of d * `unit`; `scales` become s."""
    x = values.reshape(-1, groups, 256 // groups)
    w = np.ones_like(x) if importance is None else importance.reshape(x.shape)
    allowed = np.arange(1, 2 * scales, 2, dtype=np.float32) * np.float32(unit)
    rows = levels()
    top = float(allowed[-1])
    found = fit_scaled(x, w, rows.levels, allowed, top, rows.alone, _ROUNDS)
    half_bytes(found.d)  # refuses what is not finite before levels are looked up
    s = ((found.scales / np.float32(unit) - 1) / 2).astype(np.float32)
    return Scaled(found.d, s, found.levels)


def _magnitudes(found: Scaled, name: str) -> tuple[Rows, Blocks]:
    """Row numbers (n, 256 / k) and sign bits (n, 256)."""
    levels = found.levels.reshape(-1, 256)
    width = grid(name).shape[1]
    rows = _numbers(name, np.abs(levels).reshape(-1, width)).reshape(-1, 256 // width)
    return rows, (levels < 0).astype(np.uint8)


def _bytes(numbers: npt.NDArray[np.integer] | Values, kind: str) -> Blocks:
    """Whole numbers (n, m) as little-endian unsigned integers of `kind`."""
    return numbers.astype(kind).view(np.uint8)


def _seven_signs(minus: Blocks) -> npt.NDArray[np.uint32]:
    """(n, 256) -> the lower seven sign bits of every eight, (n, 32)."""
    return (pack_sequence(minus) & np.uint8(127)).astype(np.uint32)


def _sign_words(found: Scaled, minus: Blocks) -> Blocks:
    """Eight words of four times seven signs and s on top, as uint8 (n, 32)."""
    fields = _seven_signs(minus).reshape(-1, 8, 4) << 7 * np.arange(4, dtype=np.uint32)
    words = np.bitwise_or.reduce(fields, axis=2) | found.scales.astype(np.uint32) << np.uint32(28)
    return _bytes(words, "<u4")


_iq2_xxs = cache(lambda: _signed_levels("IQ2_XXS", even=True))
_iq2_xs = cache(lambda: _signed_levels("IQ2_XS", even=True))
_iq2_s = cache(lambda: _signed_levels("IQ2_S", even=False))
_iq3_xxs = cache(lambda: _signed_levels("IQ3_XXS", even=True))
_iq3_s = cache(lambda: _signed_levels("IQ3_S", even=False))
_iq1_s = cache(lambda: _shifted_levels(32))
_iq1_m = cache(lambda: _shifted_levels(8))


def quantize_iq2_xxs(values: Values, importance: Values | None = None) -> Blocks:
    """Scales of four bits for 32 weights."""
    found = _fit(values, importance, 8, _iq2_xxs, 16, 1 / 8)
    rows, minus = _magnitudes(found, "IQ2_XXS")
    pairs = np.stack(
        [
            _bytes(rows, "u1").reshape(-1, 8, 4),
            _sign_words(found, minus).reshape(-1, 8, 4),
        ],
        axis=2,
    )
    return np.concatenate([half_bytes(found.d), pairs.reshape(-1, 64)], axis=1)


def quantize_iq2_xs(values: Values, importance: Values | None = None) -> Blocks:
    """Scales of four bits for 16 weights."""
    found = _fit(values, importance, 16, _iq2_xs, 16, 1 / 8)
    rows, minus = _magnitudes(found, "IQ2_XS")
    codes = _bytes(rows | _seven_signs(minus).astype(np.intp) << 9, "<u2")
    scales = pack_sequence(found.scales.astype(np.uint8), 4)
    return np.concatenate([half_bytes(found.d), codes, scales], axis=1)


def quantize_iq2_s(values: Values, importance: Values | None = None) -> Blocks:
    """Scales of four bits for 16 weights, free signs."""
    found = _fit(values, importance, 16, _iq2_s, 16, 1 / 8)
    rows, minus = _magnitudes(found, "IQ2_S")
    parts = [
        half_bytes(found.d),
        _bytes(rows & 255, "u1"),
        pack_sequence(minus),
        pack_sequence(_bytes(rows >> 8, "u1"), 2),
        pack_sequence(found.scales.astype(np.uint8), 4),
    ]
    return np.concatenate(parts, axis=1)


def quantize_iq3_xxs(values: Values, importance: Values | None = None) -> Blocks:
    """Scales of four bits for 32 weights."""
    found = _fit(values, importance, 8, _iq3_xxs, 16, 1 / 4)
    rows, minus = _magnitudes(found, "IQ3_XXS")
    return np.concatenate(
        [half_bytes(found.d), _bytes(rows, "u1"), _sign_words(found, minus)], axis=1
    )


def quantize_iq3_s(values: Values, importance: Values | None = None) -> Blocks:
    """Scales of four bits for 32 weights, free signs."""
    found = _fit(values, importance, 8, _iq3_s, 16, 1)
    rows, minus = _magnitudes(found, "IQ3_S")
    parts = [
        half_bytes(found.d),
        _bytes(rows & 255, "u1"),
        pack_sequence(_bytes(rows >> 8, "u1")),
        pack_sequence(minus),
        pack_sequence(found.scales.astype(np.uint8), 4),
    ]
    return np.concatenate(parts, axis=1)


def _shifted_rows(found: Scaled) -> tuple[Rows, Rows]:
    """Row numbers and whether the shift is minus, both (n, 32)."""
    levels = found.levels.reshape(-1, 8)
    rows = np.rint(levels / 8)
    minus = (levels < 8 * rows).all(axis=1)
    return _numbers("IQ1_S", rows).reshape(-1, 32), minus.astype(np.intp).reshape(-1, 32)


def quantize_iq1_s(values: Values, importance: Values | None = None) -> Blocks:
    """Scales of three bits and a shift for 32 weights."""
    found = _fit(values, importance, 8, _iq1_s, 8, 1 / 8)
    rows, minus = _shifted_rows(found)
    high = ((rows >> 8).reshape(-1, 8, 4) << 3 * np.arange(4)).sum(axis=2)
    high |= found.scales.astype(np.intp) << 12 | minus[:, ::4] << 15
    return np.concatenate(
        [half_bytes(found.d), _bytes(rows & 255, "u1"), _bytes(high, "<u2")], axis=1
    )


def quantize_iq1_m(values: Values, importance: Values | None = None) -> Blocks:
    """Scales of three bits for 16 weights, a shift for 8; d lies in four nibbles of the scales."""
    found = _fit(values, importance, 16, _iq1_m, 8, 1 / 8)
    rows, minus = _shifted_rows(found)
    high = pack_planes(_bytes(rows >> 8 | minus << 3, "u1").reshape(-1, 16, 2, 1), 4)
    words = (found.scales.astype(np.intp).reshape(-1, 4, 4) << 3 * np.arange(4)).sum(axis=2)
    d = half_bytes(found.d).view("<u2").astype(np.intp)
    words |= (d >> 4 * np.arange(4) & 15) << 12
    return np.concatenate(
        [_bytes(rows & 255, "u1"), high.reshape(-1, 16), _bytes(words, "<u2")], axis=1
    )
