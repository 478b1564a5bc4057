"""Activations, and numbers that they take layer by layer, from a file's metadata. Knows no
tensors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from edgellm.kernels.ops import Activation
from edgellm.models.architecture import Architecture
from edgellm.models.keys import Keys

# By the names that files give: those of config.json, and of blocks with a gate.
NAMES: Mapping[str, Activation] = {
    **dict.fromkeys(("silu", "swish", "swiglu"), "silu"),
    **dict.fromkeys(("gelu", "geglu"), "gelu"),
    **dict.fromkeys(("relu", "reglu"), "relu"),
    "relu2": "relu2",
}
GEMMA_3N_DEVIATIONS = 1.6448533535003662  # 95 of 100 numbers are left out


@dataclass(frozen=True)
class XIELU:
    """One layer's activation; see Builder.xielu."""

    alpha_p: float
    alpha_n: float
    beta: float


def read_activation(keys: Keys, row: Architecture) -> Activation:
    """Of feed-forward blocks: the row's, unless the file names one and the row lets it."""
    key = "hidden_activation"
    name = keys.text(key) if row.names_activation else None
    if name is None:
        return row.activation
    if name not in NAMES:
        raise keys.refuse(key, repr(name), f"one of {', '.join(NAMES)}")
    return NAMES[name]


def read_xielu(keys: Keys, num_layers: int) -> tuple[XIELU, ...]:
    """Files carry what training learned, of which both curvatures are made. These keys have no
    architecture's name. Source: Huang and Schlag 2024.
    """
    lists = (keys.numbers(name, num_layers) for name in ("alpha_p", "alpha_n", "beta"))
    return tuple(
        XIELU(_softplus(alpha_p), beta + _softplus(alpha_n), beta)
        for alpha_p, alpha_n, beta in zip(*lists, strict=True)
    )


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def read_gate_deviations(
    keys: Keys, row: Architecture, num_layers: int
) -> tuple[float | None, ...]:
    """What files of before the key leave out is that of the first ten layers of Gemma 3n."""
    key = "activation_sparsity_scale"
    if not row.altup:
        return (None,) * num_layers
    if not keys.has(key):
        return tuple(GEMMA_3N_DEVIATIONS if layer < 10 else None for layer in range(num_layers))
    # Where nothing is to be left out, the file says minus infinity.
    values = keys.numbers(key, num_layers, finite=False)
    return tuple(value if math.isfinite(value) else None for value in values)
