"""Grouped-query attention, in the variants that files and rows tell apart."""

import math

from edgellm.kernels.ops import RopeLayout
from edgellm.kernels.program import Value
from edgellm.models.recorder import Recorder


def grouped_query_attention(r: Recorder, layer: int, x: Value) -> Value:
    """Heads that share keys and values in groups. x (T, hidden_size), normed, and so the result.

    q and k norms, biases and attention sinks apply where the file has them.
    Sources: Ainslie et al. 2023; Press et al. 2021 (ALiBi); Xiao et al. 2023 (sinks).
    """
    config, row, prefix = r.config, r.architecture, f"blk.{layer}"
    heads, kv_heads = config.num_heads[layer], config.num_kv_heads[layer]
    q, k, v = (_clamped(r, part) for part in _projections(r, layer, x))
    gate = None
    if row.gated_queries:
        gate = r.builder.columns(q, config.head_dim, config.head_dim, heads)
        q = r.builder.columns(q, 0, config.head_dim, heads)
    if not row.qk_norm_last:
        q, k = _normed(r, layer, q, k)
    alibi = row.alibi(config)
    if row.rope is not None and not alibi and row.rotates(config, layer):
        table, layout = r.rope_table(layer), _layout(r, row.rope)
        q = r.builder.rope(q, table, heads, layout)
        k = r.builder.rope(k, table, kv_heads, layout)
    if row.qk_norm_last:
        q, k = _normed(r, layer, q, k)
    if config.temperature_scale is not None:
        period = config.rope_scaling.original_context
        q = r.builder.position_scale(q, period, config.temperature_scale)
    mixed = r.builder.attention(
        q,
        k,
        v,
        num_heads=heads,
        num_kv_heads=kv_heads,
        scale=config.attention_scale or 1 / math.sqrt(row.attention_width(config)),
        window=config.windows[layer],
        softcap=config.attention_softcap,
        alibi=alibi or None,
        sinks=r.weights.optional_vector(f"{prefix}.attn_sinks.weight", heads),
    )
    if gate is not None:
        mixed = r.builder.gated(gate, mixed, "sigmoid")
    mixed = r.optional_norm(mixed, f"{prefix}.attn_sub_norm")
    return r.linear(mixed, f"{prefix}.attn_output", config.hidden_size)


def _projections(r: Recorder, layer: int, x: Value) -> tuple[Value, Value, Value]:
    """Queries, keys and values: from one matrix, or from three."""
    prefix, head_dim = f"blk.{layer}", r.config.head_dim
    q_width = r.config.num_heads[layer] * head_dim * (2 if r.architecture.gated_queries else 1)
    k_width = r.config.num_kv_heads[layer] * head_dim
    v_width = r.config.num_kv_heads[layer] * r.config.value_dim
    if r.offers(f"{prefix}.attn_qkv"):
        q, k, v = r.fused_linear(x, f"{prefix}.attn_qkv", (q_width, k_width, v_width))
        return q, k, v
    return (
        r.linear(x, f"{prefix}.attn_q", q_width),
        r.linear(x, f"{prefix}.attn_k", k_width),
        r.linear(x, f"{prefix}.attn_v", v_width),
    )


def _clamped(r: Recorder, x: Value) -> Value:
    limit = r.config.clamp_qkv
    return x if limit is None else r.builder.clamp(x, limit)


def _normed(r: Recorder, layer: int, q: Value, k: Value) -> tuple[Value, Value]:
    """Both, or neither where the file has no norm of queries."""
    prefix = f"blk.{layer}"
    if not r.offers(f"{prefix}.attn_q_norm"):
        return q, k
    return (
        r.head_norm(q, f"{prefix}.attn_q_norm", r.config.num_heads[layer]),
        r.head_norm(k, f"{prefix}.attn_k_norm", r.config.num_kv_heads[layer]),
    )


def _layout(r: Recorder, layout: RopeLayout) -> RopeLayout:
    """Text has the same position in all sections, so that only the pairing differs."""
    return "split" if r.architecture.sections_split and r.config.rope_sections else layout
