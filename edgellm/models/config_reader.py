"""A model's configuration, read from a file's metadata and checked. Knows no tensors."""

import math

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile
from edgellm.models.activation_config import (
    read_activation,
    read_gate_deviations,
    read_xielu,
)
from edgellm.models.altup_config import read_altup
from edgellm.models.architecture import Architecture, NormKind
from edgellm.models.config import ModelConfig
from edgellm.models.cycles_config import read_cycles
from edgellm.models.expert_config import read_experts
from edgellm.models.keys import Keys
from edgellm.models.latent_config import read_latent
from edgellm.models.recurrent_config import read_recurrent
from edgellm.models.registry import architecture, refuse_parts
from edgellm.models.rope_config import (
    MAX_CONTEXT,
    read_rope_base,
    read_rope_scaling,
    read_rotary_dim,
)
from edgellm.types import POOLINGS, Pooling

MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
DEFAULT_BUCKETS = 32  # of biases by distance
UNSPECIFIED_POOLING = 0xFFFFFFFF  # -1, as some writers put it


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
    extra = Keys(file, name).integer("nextn_predict_layers", 0, MAX_LAYERS, default=0)
    keys = Keys(file, name, unlisted_layers=extra) if with_heads else Keys(file, name, extra)
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
    rotary_dim = read_rotary_dim(keys, "rope.dimension_count", head_dim, head_dim)
    # Where all layers have experts, no other block's width need be said.
    no_width = (0,) * num_layers if keys.has("expert_feed_forward_length") else None
    intermediate_size = tuple(
        width // row.feed_forward_divisor
        for width in keys.per_layer("feed_forward_length", num_layers, least, MAX_WIDTH, no_width)
    )
    rope_scaling = read_rope_scaling(keys, row, context_length)
    rope_base = read_rope_base(keys, row, head_dim)
    latent_widths = (head_dim, value_dim, rotary_dim, rope_scaling)
    latent = read_latent(keys, *latent_widths)
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
        local_rotary_dim=read_rotary_dim(
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
        temperature_length=keys.integer("attention.temperature_length", 0, MAX_CONTEXT, default=0)
        or rope_scaling.original_context,
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
        activation=read_activation(keys, row),
        xielu=read_xielu(Keys(file, "xielu"), num_layers) if row.xielu else (),
        gate_deviations=read_gate_deviations(keys, row, num_layers),
        altup=read_altup(keys) if row.altup else None,
        cycles=read_cycles(keys, num_layers) if row.cycles else None,
        recurrent=recurrent,
        latent=latent,
        local_latent=read_latent(keys, *latent_widths, layers="_swa") or latent,
        experts=read_experts(keys, row, intermediate_size),
    )


def _reach(keys: Keys, row: Architecture, context_length: int) -> int:
    """As many tokens as the model may see, computed as it does."""
    reach = context_length
    if row.exact_within:
        reach = min(reach, math.prod(keys.integer(k, 1, MAX_CONTEXT) for k in row.exact_within))
    if row.scaled_beyond is not None:
        reach = min(reach, keys.integer(row.scaled_beyond, 0, MAX_CONTEXT, default=0) or reach)
    return reach


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


def _softcap(keys: Keys, key: str, default: float | None) -> float | None:
    """Only families that have a cap read the key: writers fill it in for all."""
    return None if default is None else keys.number(key, 0, 1e6, default=default) or None


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
