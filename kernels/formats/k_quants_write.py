"""Writing Q2_K to Q6_K: the scales of least error, then the layouts of `k_quants.py` in reverse."""

import numpy as np

from edgellm.kernels.formats.fields import half_bytes, pack_planes
from edgellm.kernels.formats.format import Blocks, Values
from edgellm.kernels.formats.search import integers
from edgellm.kernels.formats.super_blocks import Affine, Scaled, fit_blocks, fit_scaled


def _groups(values: Values, importance: Values | None, groups: int) -> tuple[Values, Values]:
    """Values and importances as (n, groups, 256 // groups)."""
    x = values.reshape(len(values), groups, -1)
    return x, np.ones_like(x) if importance is None else importance.reshape(x.shape)


def _bytes(whole: Values) -> Blocks:
    return whole.astype(np.int16).astype(np.uint8)


def fit_q2_k(values: Values, importance: Values | None = None) -> Affine:
    """Scales and minimums of four bits, weights of two."""
    return fit_blocks(*_groups(values, importance, 16), 3, 15, np.arange(1.8, 4.1, 0.15).tolist())


def pack_q2_k(found: Affine) -> Blocks:
    """The blocks that hold what was found."""
    scales = _bytes(found.scales) | _bytes(found.mins) << np.uint8(4)
    q = pack_planes(_bytes(found.q).reshape(-1, 2, 4, 32), 2).reshape(-1, 64)
    return np.concatenate([scales, q, half_bytes(found.d), half_bytes(found.dmin)], axis=1)


def fit_q3_k(values: Values, importance: Values | None = None) -> Scaled:
    """Signed scales of six bits, weights of three."""
    allowed = np.arange(-32, 32, dtype=np.float32)
    return fit_scaled(*_groups(values, importance, 16), integers(-4, 3), allowed, -32)


def pack_q3_k(found: Scaled) -> Blocks:
    """The blocks that hold what was found."""
    scales, q = _bytes(found.scales + 32), _bytes(found.levels.reshape(-1, 256) + 4)
    high = pack_planes((q >> np.uint8(2)).reshape(-1, 8, 32), 1)
    low = pack_planes((q & np.uint8(3)).reshape(-1, 2, 4, 32), 2).reshape(-1, 64)
    packed_scales = [
        pack_planes((scales & np.uint8(15)).reshape(-1, 2, 8), 4),
        pack_planes((scales >> np.uint8(4)).reshape(-1, 4, 4), 2),
    ]
    return np.concatenate([high, low, *packed_scales, half_bytes(found.d)], axis=1)


def _head(found: Affine) -> list[Blocks]:
    """The halves and the 12 bytes of Q4_K and Q5_K; see `_scales_and_mins` of `k_quants.py`."""
    scales, mins = _bytes(found.scales), _bytes(found.mins)
    four, top = np.uint8(4), np.uint8(6)
    return [
        half_bytes(found.d),
        half_bytes(found.dmin),
        scales[:, :4] | scales[:, 4:] >> four << top,
        mins[:, :4] | mins[:, 4:] >> four << top,
        scales[:, 4:] & np.uint8(15) | mins[:, 4:] << four,
    ]


def fit_q4_k(values: Values, importance: Values | None = None) -> Affine:
    """Scales and minimums of six bits, weights of four."""
    return fit_blocks(*_groups(values, importance, 8), 15, 63, np.arange(13, 16.6, 0.3).tolist())


def pack_q4_k(found: Affine) -> Blocks:
    """The blocks that hold what was found."""
    q = pack_planes(_bytes(found.q).reshape(-1, 4, 2, 32), 4).reshape(-1, 128)
    return np.concatenate([*_head(found), q], axis=1)


def fit_q5_k(values: Values, importance: Values | None = None) -> Affine:
    """Scales and minimums of six bits, weights of five."""
    return fit_blocks(*_groups(values, importance, 8), 31, 63, np.arange(29, 32.6, 0.3).tolist())


def pack_q5_k(found: Affine) -> Blocks:
    """The blocks that hold what was found."""
    q = _bytes(found.q)
    high = pack_planes((q >> np.uint8(4)).reshape(-1, 8, 32), 1)
    low = pack_planes((q & np.uint8(15)).reshape(-1, 4, 2, 32), 4).reshape(-1, 128)
    return np.concatenate([*_head(found), high, low], axis=1)


def fit_q6_k(values: Values, importance: Values | None = None) -> Scaled:
    """Signed scales of eight bits, weights of six."""
    allowed = np.arange(-128, 128, dtype=np.float32)
    return fit_scaled(*_groups(values, importance, 16), integers(-32, 31), allowed, -128)


def pack_q6_k(found: Scaled) -> Blocks:
    """The blocks that hold what was found."""
    q = _bytes(found.levels.reshape(-1, 256) + 32)
    low = pack_planes((q & np.uint8(15)).reshape(-1, 2, 2, 64), 4).reshape(-1, 128)
    high = pack_planes((q >> np.uint8(4)).reshape(-1, 2, 4, 32), 2).reshape(-1, 64)
    return np.concatenate([low, high, _bytes(found.scales), half_bytes(found.d)], axis=1)
