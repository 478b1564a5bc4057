"""How a model weighs and sizes its experts, from a file's metadata. Knows no tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgellm.kernels.ops import Gating
from edgellm.models.architecture import Architecture
from edgellm.models.keys import Keys

MAX_EXPERTS = 4096
MAX_WIDTH = 1 << 20
# Numbers of `expert_gating_func`; 0 leaves it to the family.
GATINGS: Mapping[int, Gating] = {1: "softmax", 2: "sigmoid", 3: "softmax_selected"}

# Of GroveMoE, where a file does not say: experts that share one more, and what that is worth.
GROVE_SIZE, GROVE_FACTOR = 2, 0.05


@dataclass(frozen=True)
class ExpertConfig:
    """Experts of a model. Tuples have one entry per layer; widths in elements.

    count, used: experts, and how many of them a token sees, 0 in layers without. intermediate_size,
    shared_intermediate_size: of one expert, and of what all tokens share. gating, normalize,
    factor: see Builder.moe_route. groups, groups_used: experts come in so many equal groups, of
    which a token sees some; 1 is all. limits, shared_limits: what feed_forward.gated takes, of the
    chosen and of the shared. router_softcap: of scores, before they become weights. per_group: so
    many experts share one more, where the file has those; group_expert_width: of such a one, 0 is
    that of a head; group_expert_factor: multiplies what they add.
    """

    count: int
    used: tuple[int, ...]
    intermediate_size: tuple[int, ...]
    shared_intermediate_size: tuple[int, ...]
    gating: Gating
    normalize: bool
    factor: float
    groups: int
    groups_used: int
    limits: tuple[float | None, ...]
    shared_limits: tuple[float | None, ...]
    router_softcap: float | None
    per_group: int
    group_expert_width: int
    group_expert_factor: float


def read_experts(
    keys: Keys, row: Architecture, intermediate_size: tuple[int, ...]
) -> ExpertConfig | None:
    """None for a model without experts. GGUFError as for any other key.

    intermediate_size: of the feed-forward blocks without experts.
    """
    count = keys.integer("expert_count", 0, MAX_EXPERTS, default=0)
    if count == 0:
        keys.integer("expert_used_count", 0, 0, default=0)
        return None
    used = keys.per_layer("expert_used_count", len(intermediate_size), 0, count)
    if not any(used):
        raise keys.refuse("expert_used_count", 0, f"1 to {count}")
    divisor = max(used) if row.experts_share_width else 1
    default = tuple(width // divisor for width in intermediate_size)
    if row.experts_full_width:
        sizes = intermediate_size
    else:
        sizes = _widths(keys, "expert_feed_forward_length", default)
    num_shared = keys.integer("expert_shared_count", 0, MAX_EXPERTS, default=0)
    num_shared = num_shared or row.shared_experts
    shared = tuple(num_shared * size for size in sizes) if num_shared else intermediate_size
    gating = keys.integer("expert_gating_func", 0, max(GATINGS), default=0)
    groups, groups_used = _groups(keys, count, max(used))
    return ExpertConfig(
        count=count,
        used=used,
        intermediate_size=sizes,
        shared_intermediate_size=_shared_widths(keys, row, num_shared, shared),
        gating=GATINGS[gating] if gating else row.gating,
        normalize=row.normalize_gates or keys.boolean("expert_weights_norm") is True,
        factor=keys.optional_number("expert_weights_scale") or 1.0,
        groups=groups,
        groups_used=groups_used,
        limits=_limits(keys, row, "swiglu_clamp_exp", len(sizes)),
        shared_limits=_limits(keys, row, "swiglu_clamp_shexp", len(sizes)),
        router_softcap=_router_softcap(keys, row),
        per_group=keys.integer("experts_per_group", 0, count, default=0) or GROVE_SIZE,
        group_expert_width=keys.integer(
            "expert_chunk_feed_forward_length", 0, MAX_WIDTH, default=0
        ),
        group_expert_factor=keys.number("expert_group_scale", 0, 1e6, default=GROVE_FACTOR),
    )


def _limits(keys: Keys, row: Architecture, key: str, num_layers: int) -> tuple[float | None, ...]:
    """Per layer; 0 is none."""
    if not keys.has(key):
        return (None,) * num_layers
    limits = tuple(limit if limit > 0 else None for limit in keys.numbers(key, num_layers))
    if any(limits) and row.activation == "swiglu_clamped":
        raise keys.refuse(key, "given", "none: the activation has a limit of its own")
    return limits


def _router_softcap(keys: Keys, row: Architecture) -> float | None:
    if row.router_softcap is None:
        return None
    return keys.number("router_logit_softcapping", 0, 1e6, default=row.router_softcap) or None


def _widths(keys: Keys, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """Per layer; writers put 0 where there is nothing to say."""
    widths = keys.per_layer(key, len(default), 0, MAX_WIDTH, default=default)
    return tuple(width or other for width, other in zip(widths, default, strict=True))


def _shared_widths(
    keys: Keys, row: Architecture, num_shared: int, default: tuple[int, ...]
) -> tuple[int, ...]:
    """Of all that is shared together; some files say how wide each is."""
    key = "expert_shared_feed_forward_length"
    widths = _widths(keys, key, default)
    if not row.shared_width_each or not keys.has(key):
        return widths
    return tuple(width * max(num_shared, 1) for width in widths)


def _groups(keys: Keys, count: int, used: int) -> tuple[int, int]:
    """How many groups there are, and how many a token sees."""
    groups = keys.integer("expert_group_count", 0, count, default=0)
    if groups <= 1:
        return 1, 1
    if count % groups:
        raise keys.refuse("expert_group_count", groups, f"a divisor of {count} experts")
    groups_used = keys.integer("expert_group_used_count", 1, groups)
    if groups_used * (count // groups) < used:
        raise keys.refuse("expert_group_used_count", groups_used, f"room for {used} experts")
    return groups, groups_used
