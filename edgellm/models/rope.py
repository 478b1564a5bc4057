"""Rotary frequencies of a model. Knows nothing of ops or of how vectors are rotated."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

ScalingKind = Literal["none", "linear", "dynamic", "yarn", "longrope"]
Frequencies = npt.NDArray[np.float32]


@dataclass(frozen=True)
class RopeScaling:
    """How positions beyond the original training length are brought back into it.

    factor: longer by this much. original_context: in tokens. attention_factor: multiplies cos and
    sin. beta_fast, beta_slow: yarn's bounds, in rotations over the original context. truncate:
    yarn's bounds are widened to whole dimensions. log_multiplier: where it is not 0, yarn's
    magnitude goes into the scores of attention instead, as the model's own code has it.
    """

    kind: ScalingKind
    factor: float
    original_context: int
    attention_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    log_multiplier: float = 0.0

    @property
    def magnitude(self) -> float:
        """What cos and sin are multiplied with."""
        if self.kind == "yarn" and not self.log_multiplier:
            return self.attention_factor * (1 + 0.1 * math.log(max(self.factor, 1.0)))
        return self.attention_factor


def inverse_frequencies(
    rotary_dim: int,
    base: float,
    scaling: RopeScaling | None = None,
    divisors: Frequencies | None = None,
    context_length: int = 0,
) -> Frequencies:
    """Radians per position for each of rotary_dim / 2 pairs, after scaling.

    divisors: one per pair, from the model file (Llama 3, longrope). context_length: tokens that a
    sequence may have, for which "dynamic" chooses its base once: what is cached stays true.
    Sources: Su et al. 2021; Chen et al. 2023 (linear); Peng et al. 2023 (yarn, dynamic).
    """
    if scaling is not None and scaling.kind == "dynamic":
        base *= _growth(scaling, context_length) ** (rotary_dim / max(rotary_dim - 2, 1))
    pairs = np.arange(rotary_dim // 2)
    plain = base ** (-2.0 * pairs / rotary_dim)
    if divisors is not None:
        plain = plain / divisors
    if scaling is None or scaling.kind in ("none", "longrope", "dynamic"):
        return plain.astype(np.float32)
    stretched = plain / scaling.factor
    if scaling.kind == "linear":
        return stretched.astype(np.float32)
    low, high = (
        _dimension(rotations, rotary_dim, base, scaling.original_context)
        for rotations in (scaling.beta_fast, scaling.beta_slow)
    )
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary_dim - 1)
    # Fast dimensions (below low) keep their frequency, slow ones (above high) are stretched.
    stretch = np.clip((pairs - low) / max(high - low, 0.001), 0, 1)
    blended: Frequencies = (stretched * stretch + plain * (1 - stretch)).astype(np.float32)
    return blended


def _growth(scaling: RopeScaling, context_length: int) -> float:
    """How much farther positions reach than in training, at least 1."""
    reach = context_length / scaling.original_context
    return max(scaling.factor * reach - (scaling.factor - 1), 1.0) if reach > 1 else 1.0


def _dimension(rotations: float, rotary_dim: int, base: float, context: int) -> float:
    """The pair that turns `rotations` times over `context` positions."""
    return rotary_dim * math.log(context / (rotations * 2 * math.pi)) / (2 * math.log(base))
