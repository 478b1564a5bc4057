"""Sizes and constants of a model, read from a file's metadata and checked. Knows no tensors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile
from edgellm.models.altup_config import AltUpConfig, read_altup
from edgellm.models.architecture import Architecture, NormKind
from edgellm.models.cycles_config import CyclesConfig, read_cycles
from edgellm.models.expert_config import ExpertConfig, read_experts
from edgellm.models.keys import Keys
from edgellm.models.latent_config import LatentConfig, read_latent
from edgellm.models.recurrent_config import RecurrentConfig, read_recurrent
from edgellm.models.registry import architecture, refuse_parts
from edgellm.models.rope import RopeScaling, ScalingKind
from edgellm.types import POOLINGS, Pooling

MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
MAX_CONTEXT = 1 << 30
DEFAULT_BUCKETS = 32  # of biases by distance
UNSPECIFIED_POOLING = 0xFFFFFFFF  # -1, as some writers put it
GEMMA_3N_DEVIATIONS = 1.6448533535003662  # 95 of 100 numbers are left out
SCALING_KINDS: Mapping[str, ScalingKind] = {
    "none": "none",
    "linear": "linear",
    "dynamic": "dynamic",
    "yarn": "yarn",
    "longrope": "longrope",
}


@dataclass(frozen=True)
class XIELU:
    """One layer's activation; see Builder.xielu."""

    alpha_p: float
    alpha_n: float
    beta: float


@dataclass(frozen=True)
class ModelConfig:
    """One model's parameters. Tuples have one entry per layer. Lengths and widths in elements.

    causal: whether tokens see only what comes before them; those of an encoder beside a decoder see
    all. pooling: how the file makes one row of a text's, None where it does not say.
    rope_finetuned, rope_sections: whether the file says so, and whether it divides rotary
    dimensions among text and images. rotating: whether the file says of a layer that it rotates,
    where the row asks for that. linear_layers: likewise of those with linear attention, in models
    whose blocks add to normed inputs. loops: how often all layers run, one after another;
    norms_loops: with the last norm in between. windows: keys that a query of the layer sees, itself
    included; None is all of them. In a model that is not causal half of it lies after the query.
    attention_scale: multiplies attention scores. value_scale: multiplies what attention adds. norm:
    never "by_key".
    temperature_scale: queries beyond rope_scaling.original_context grow with it (Builder.
    position_scale). max_alibi_bias: see Builder.attention, 0 is none. clamp_qkv: largest
    magnitude of queries, keys and values. The other scales are the file's own; the row of the
    architecture says what they do. local_...: of layers with a window. shared_kv_layers: so many
    at the end use keys and values of earlier ones. per_layer_input_width: what a token brings to
    each layer, 0 is nothing. relative_buckets: ranges of distance that have a bias each.
    leading_dense_layers: so many at the start have no experts, as the file says. xielu: empty
    without that activation. gate_deviations: per layer what Builder.gaussian_top_k takes, None
    leaves gates alone. latent, experts and all others: None where there are none.
    """

    architecture: str
    num_layers: int
    loops: int
    norms_loops: bool
    hidden_size: int
    intermediate_size: tuple[int, ...]
    context_length: int
    causal: bool
    pooling: Pooling | None
    num_heads: tuple[int, ...]
    num_kv_heads: tuple[int, ...]
    head_dim: int
    local_head_dim: int
    value_dim: int
    local_value_dim: int
    rotary_dim: int
    local_rotary_dim: int
    rope_base: float
    local_rope_base: float
    rope_scaling: RopeScaling
    rope_finetuned: bool | None
    rope_sections: bool
    rotating: tuple[bool, ...]
    linear_layers: tuple[bool, ...]
    norm: NormKind
    norm_eps: float
    windows: tuple[int | None, ...]
    attention_scale: float | None
    attention_softcap: float | None
    value_scale: float | None
    temperature_scale: float | None
    max_alibi_bias: float
    clamp_qkv: float | None
    parallel_residual: bool
    embedding_scale: float | None
    residual_scale: float | None
    logit_scale: float | None
    final_softcap: float | None
    shared_kv_layers: int
    per_layer_input_width: int
    relative_buckets: int
    leading_dense_layers: int
    xielu: tuple[XIELU, ...]
    gate_deviations: tuple[float | None, ...]
    altup: AltUpConfig | None
    cycles: CyclesConfig | None
    recurrent: RecurrentConfig
    latent: LatentConfig | None
    experts: ExpertConfig | None

    def head_dim_of(self, layer: int) -> int:
        """The width of the layer's queries and keys."""
        return self.head_dim if self.windows[layer] is None else self.local_head_dim

    def value_dim_of(self, layer: int) -> int:
        """The width of the layer's values."""
        return self.value_dim if self.windows[layer] is None else self.local_value_dim


def read_config(file: GGUFFile, with_heads: bool = False) -> ModelConfig:
    """The configuration of the model in `file`.

    with_heads: those behind its own layers that predict more than one token ahead count as layers.

    GGUFError names a key that is missing, of the wrong type or outside its range, and an
    architecture that is not in the registry.
    """
    name = file.string("general.architecture")
    if name is None:
        raise GGUFError("general.architecture is missing: the file does not say what model it is")
    refuse_parts(file.string("general.type"))
    row = architecture(name)
    heads = file.integer(f"{name}.nextn_predict_layers") or 0
    keys = Keys(file, name, unlisted_layers=heads) if with_heads else Keys(file, name, heads)
    num_layers = keys.integer("block_count", 1, MAX_LAYERS) - keys.extra_layers
    if not 1 <= num_layers <= MAX_LAYERS:
        raise keys.refuse("nextn_predict_layers", keys.extra_layers, "less than block_count")
    for key in row.refused_keys:
        if keys.optional_number(key):
            raise keys.refuse(key, "given", "none: what it asks for is not supported")
    hidden_size = keys.integer("embedding_length", 1, MAX_WIDTH)
    context_length = keys.integer("context_length", 1, MAX_CONTEXT)
    recurrent = read_recurrent(keys)
    # A hybrid has layers without attention, or without more.
    least = 0 if recurrent.sizes or row.may_skip else 1
    num_heads = keys.per_layer("attention.head_count", num_layers, least, MAX_WIDTH)
    num_kv_heads = keys.per_layer(
        "attention.head_count_kv", num_layers, least, MAX_WIDTH, default=num_heads
    )
    for heads, kv_heads in zip(num_heads, num_kv_heads, strict=True):
        if kv_heads and heads % kv_heads:
            raise keys.refuse("attention.head_count", heads, f"a multiple of {kv_heads} KV heads")
    head_dim = keys.integer(
        "attention.key_length", 1, MAX_WIDTH, default=max(1, hidden_size // max(1, *num_heads))
    )
    local_head_dim = keys.integer("attention.key_length_swa", 1, MAX_WIDTH, default=head_dim)
    value_dim = keys.integer("attention.value_length", 1, MAX_WIDTH, default=head_dim)
    rotary_dim = _rotary_dim(keys, "rope.dimension_count", head_dim, head_dim)
    intermediate_size = tuple(
        width // row.feed_forward_divisor
        for width in keys.per_layer("feed_forward_length", num_layers, least, MAX_WIDTH)
    )
    rope_scaling = _rope_scaling(keys, row, context_length)
    rope_base = _rope_base(keys, row, head_dim)
    norm, norm_eps = _norm(keys, row)
    causal = keys.boolean("attention.causal")
    return ModelConfig(
        architecture=name,
        num_layers=num_layers,
        loops=keys.integer("num_loops", 0, MAX_LAYERS, default=1) or 1,
        norms_loops=keys.boolean("skip_loop_final_norm") is not True,
        hidden_size=hidden_size,
        intermediate_size=intermediate_size,
        context_length=_reach(keys, row, context_length),
        causal=row.causal if causal is None or row.part else causal,
        pooling=_pooling(keys),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        local_head_dim=local_head_dim,
        value_dim=value_dim,
        local_value_dim=keys.integer("attention.value_length_swa", 1, MAX_WIDTH, default=value_dim),
        rotary_dim=rotary_dim // row.rotary_divisor,
        local_rotary_dim=_rotary_dim(
            keys, "rope.dimension_count_swa", local_head_dim, min(rotary_dim, local_head_dim)
        ),
        rope_base=rope_base,
        local_rope_base=keys.number(
            "rope.freq_base_swa", 1.0001, 1e12, default=row.local_rope_base or rope_base
        ),
        rope_scaling=rope_scaling,
        rope_finetuned=keys.boolean("rope.scaling.finetuned"),
        rope_sections=any(keys.integers("rope.dimension_sections")),
        rotating=tuple(
            bool(yes)
            for yes in keys.per_layer(
                "attention.rope_pattern", num_layers, 0, 1, default=(1,) * num_layers
            )
        ),
        linear_layers=_linear_layers(keys, row, num_layers),
        norm=norm,
        norm_eps=norm_eps,
        windows=_windows(keys, row, num_layers),
        attention_scale=keys.optional_number(row.attention_scale_key),
        attention_softcap=_softcap(keys, "attn_logit_softcapping", row.attention_softcap),
        value_scale=keys.optional_number("attention.value_scale"),
        temperature_scale=keys.optional_number("attention.temperature_scale"),
        max_alibi_bias=keys.number("attention.max_alibi_bias", 0, 1e3, default=0.0),
        clamp_qkv=keys.optional_number("attention.clamp_kqv"),
        parallel_residual=keys.boolean("use_parallel_residual") is not False,
        embedding_scale=keys.optional_number("embedding_scale"),
        residual_scale=keys.optional_number("residual_scale"),
        logit_scale=keys.optional_number("logit_scale"),
        final_softcap=_softcap(keys, "final_logit_softcapping", row.final_softcap),
        shared_kv_layers=keys.integer(
            "attention.shared_kv_layers",
            0,
            num_layers - 1,
            default=max(0, num_layers - (row.own_kv_layers or num_layers)),
        ),
        per_layer_input_width=keys.integer(
            "embedding_length_per_layer_input", 0, MAX_WIDTH, default=0
        )
        or row.per_layer_input_width,
        relative_buckets=_relative_buckets(keys),
        leading_dense_layers=keys.integer("leading_dense_block_count", 0, MAX_LAYERS, default=0),
        xielu=_xielu(Keys(file, "xielu"), num_layers) if row.xielu else (),
        gate_deviations=_gate_deviations(keys, row, num_layers),
        altup=read_altup(keys) if row.altup else None,
        cycles=read_cycles(keys, num_layers) if row.cycles else None,
        recurrent=recurrent,
        latent=read_latent(keys, head_dim, value_dim, rotary_dim, rope_scaling),
        experts=read_experts(keys, row, intermediate_size),
    )


def _reach(keys: Keys, row: Architecture, context_length: int) -> int:
    """As many tokens as the model may see, computed as it does."""
    if not row.exact_within:
        return context_length
    picked = math.prod(keys.integer(key, 1, MAX_CONTEXT) for key in row.exact_within)
    return min(context_length, picked)


def _pooling(keys: Keys) -> Pooling | None:
    if keys.file.integer(f"{keys.prefix}.pooling_type") in (None, UNSPECIFIED_POOLING):
        return None
    return POOLINGS[keys.integer("pooling_type", 0, len(POOLINGS) - 1)]


def _relative_buckets(keys: Keys) -> int:
    """Those of T5 where the file does not say; 0 says nothing."""
    key = "attention.relative_buckets_count"
    buckets = keys.integer(key, 0, MAX_CONTEXT, default=0) or DEFAULT_BUCKETS
    if buckets < 4:
        raise keys.refuse(key, buckets, "at least 4")
    return buckets


def _linear_layers(keys: Keys, row: Architecture, num_layers: int) -> tuple[bool, ...]:
    """Layer by layer, or all but the last of so many."""
    if row.residual != "normed_inputs":
        return (False,) * num_layers
    period = keys.integer("full_attention_interval", 0, MAX_LAYERS, default=0) or 8
    default = tuple(int((layer + 1) % period > 0) for layer in range(num_layers))
    key = "attention.recurrent_layers"
    return tuple(bool(n) for n in keys.per_layer(key, num_layers, 0, 1, default=default))


def _norm(keys: Keys, row: Architecture) -> tuple[NormKind, float]:
    """Which norm the model has, and its epsilon."""
    rms, layer = (f"attention.layer_norm_{name}" for name in ("rms_epsilon", "epsilon"))
    kind = row.norm
    if kind == "by_key":
        kind = "rms" if keys.optional_number(rms) else "layer"
    return kind, keys.number(rms if kind in ("rms", "plain_rms") else layer, 0, 1)


def _rope_base(keys: Keys, row: Architecture, head_dim: int) -> float:
    """The base that the file gives, raised where it asks for that (NTK-aware scaling)."""
    base = keys.number("rope.freq_base", 1.0001, 1e12, default=10000.0)
    alpha = keys.optional_number("rope.scaling.alpha") if row.ntk_alpha else None
    return base if alpha is None else base * alpha ** (head_dim / max(head_dim - 2, 1))


def _gate_deviations(keys: Keys, row: Architecture, num_layers: int) -> tuple[float | None, ...]:
    """What files of before the key leave out is that of the first ten layers of Gemma 3n."""
    key = "activation_sparsity_scale"
    if not row.altup:
        return (None,) * num_layers
    if not keys.has(key):
        return tuple(GEMMA_3N_DEVIATIONS if layer < 10 else None for layer in range(num_layers))
    # Where nothing is to be left out, the file says minus infinity.
    values = keys.numbers(key, num_layers, finite=False)
    return tuple(value if math.isfinite(value) else None for value in values)


def _rotary_dim(keys: Keys, key: str, head_dim: int, default: int) -> int:
    """How many dimensions of a head are rotated; 0 in a file says nothing."""
    rotary_dim = keys.integer(key, 0, head_dim, default=default) or default
    if rotary_dim % 2:
        raise keys.refuse(key, rotary_dim, "an even number")
    return rotary_dim


def _softcap(keys: Keys, key: str, default: float | None) -> float | None:
    """Only families that have a cap read the key: writers fill it in for all."""
    return None if default is None else keys.number(key, 0, 1e6, default=default) or None


def _xielu(keys: Keys, num_layers: int) -> tuple[XIELU, ...]:
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


def _rope_scaling(keys: Keys, row: Architecture, context_length: int) -> RopeScaling:
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


def _windows(keys: Keys, row: Architecture, num_layers: int) -> tuple[int | None, ...]:
    """Per layer; the file's pattern, a list of yes and no or a period, goes before the row's."""
    window = keys.integer(
        "attention.sliding_window", 0, MAX_CONTEXT, default=row.default_window or 0
    )
    pattern = "attention.sliding_window_pattern"
    if keys.is_array(pattern):
        windowed = [bool(yes) for yes in keys.per_layer(pattern, num_layers, 0, 1)]
    else:
        period = keys.integer(pattern, 1, MAX_LAYERS) if keys.has(pattern) else None
        windowed = [row.is_windowed(layer, period) for layer in range(num_layers)]
    return tuple(window if yes and window else None for yes in windowed)
