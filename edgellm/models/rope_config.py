"""How positions become angles, from a file's metadata. Knows no tensors."""

from collections.abc import Mapping

from edgellm.models.architecture import Architecture
from edgellm.models.keys import Keys
from edgellm.models.rope import RopeScaling, ScalingKind

MAX_CONTEXT = 1 << 30
SCALING_KINDS: Mapping[str, ScalingKind] = {
    "none": "none",
    "linear": "linear",
    "dynamic": "dynamic",
    "yarn": "yarn",
    "longrope": "longrope",
}


def read_rope_base(keys: Keys, row: Architecture, head_dim: int) -> float:
    """The base that the file gives, raised where it asks for that (NTK-aware scaling)."""
    base = keys.number("rope.freq_base", 1.0001, 1e12, default=10000.0)
    alpha = keys.optional_number("rope.scaling.alpha") if row.ntk_alpha else None
    return base if alpha is None else base * alpha ** (head_dim / max(head_dim - 2, 1))


def read_rotary_dim(keys: Keys, key: str, head_dim: int, default: int) -> int:
    """How many dimensions of a head are rotated; 0 in a file says nothing."""
    rotary_dim = keys.integer(key, 0, head_dim, default=default) or default
    if rotary_dim % 2:
        raise keys.refuse(key, rotary_dim, "an even number")
    return rotary_dim


def read_rope_scaling(keys: Keys, row: Architecture, context_length: int) -> RopeScaling:
    kind = keys.file.string(f"{keys.prefix}.rope.scaling.type") or "linear"
    if kind not in SCALING_KINDS:
        raise keys.refuse("rope.scaling.type", repr(kind), " or ".join(SCALING_KINDS))
    default = keys.number("rope.scale_linear", 0, 1e6, default=1.0)
    return RopeScaling(
        kind=SCALING_KINDS[kind],
        factor=keys.number("rope.scaling.factor", 0, 1e6, default=default) or 1.0,
        original_context=keys.integer(
            "rope.scaling.original_context_length", 1, MAX_CONTEXT, default=context_length
        ),
        attention_factor=keys.optional_number("rope.scaling.attn_factor") or 1.0,
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", 1e-3, 1e6, default=row.yarn_beta_fast),
        beta_slow=keys.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, default=1.0),
        truncate=row.yarn_truncate,
        log_multiplier=keys.number("rope.scaling.yarn_log_multiplier", 0, 1e3, default=0.0),
    )
