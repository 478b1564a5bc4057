"""Grouped-query attention, in the variants that files and rows tell apart."""

import math

import numpy as np

from edgellm.errors import GGUFError
from edgellm.kernels.ops import RopeLayout
from edgellm.kernels.program import Value, Weight
from edgellm.models.recorder import Recorder, vector


def grouped_query_attention(r: Recorder, layer: int, x: Value) -> Value:
    """Heads that share keys and values in groups. x (T, hidden_size), normed, and so the result.

    q and k norms, biases and attention sinks apply where the file has them.
    Sources: Ainslie et al. 2023; Press et al. 2021 (ALiBi); Xiao et al. 2023 (sinks).
    """
    config, row, prefix = r.config, r.architecture, f"blk.{layer}"
    heads, head_dim = config.num_heads[layer], config.head_dim_of(layer)
    shared = _source_of_keys(r, layer)
    if shared is None:
        q, k, v = (_clamped(r, part) for part in _projections(r, layer, x))
    else:
        q, k, v = _queries(r, layer, x), None, None
    gate = None
    if row.gated_queries:
        gate = r.builder.columns(q, head_dim, head_dim, heads)
        q = r.builder.columns(q, 0, head_dim, heads)
    q = _placed(r, layer, q, "attn_q_norm", heads)
    k = None if k is None else _placed(r, layer, k, "attn_k_norm", config.num_kv_heads[layer])
    q = _scaled_by_position(r, layer, q)
    mixed = r.builder.attention(
        q,
        k,
        v,
        num_heads=heads,
        num_kv_heads=config.num_kv_heads[layer],
        scale=config.attention_scale or 1 / math.sqrt(row.attention_width(config)),
        window=reach(r, layer),
        chunked=row.chunked_windows,
        causal=config.causal,
        softcap=config.attention_softcap,
        alibi=row.alibi(config) or None,
        sinks=_sinks(r, layer, heads),
        shared=None if shared is None else r.kv_layers[shared],
    )
    if shared is None:
        r.kv_layers[layer] = len(r.builder.kv_layers) - 1
    if gate is not None:
        mixed = r.builder.gated(gate, mixed, "sigmoid")
    mixed = r.optional_norm(gated_by_projection(r, layer, mixed, x), f"{prefix}.attn_sub_norm")
    out = r.linear(mixed, f"{prefix}.attn_output", config.hidden_size)
    return out if config.value_scale is None else r.builder.multiply(out, config.value_scale)


def gated_by_projection(r: Recorder, layer: int, mixed: Value, x: Value) -> Value:
    """What is mixed, times a projection of x to as many numbers, or to one for each head, where the
    file has one.
    """
    name, heads = f"blk.{layer}.attn_gate", r.config.num_heads[layer]
    if not r.offers(name):
        return mixed
    _, rows, *_ = (*r.weights.shape(f"{name}.weight"), 1)  # a matrix of one row has one number less
    gate = r.linear(x, name, heads if rows == heads else mixed.width)
    if r.architecture.attention_gate == "softplus":
        gate = r.builder.softplus(gate)
    else:
        gate = r.builder.activate(gate, "sigmoid")
    return r.builder.scale_heads(mixed, gate)


def _sinks(r: Recorder, layer: int, heads: int) -> Weight | None:
    """Layers with a window may have them where others have none."""
    kind = "all keys" if r.config.windows[layer] is None else "a window"
    return r.weights.optional_vector(f"blk.{layer}.attn_sinks.weight", heads, kind)


def _scaled_by_position(r: Recorder, layer: int, q: Value) -> Value:
    config, scale = r.config, r.architecture.unrotated_scale
    if scale is not None:
        if _rotates(r, layer):
            return q
        return r.builder.position_scale(q, scale.length, scale.factor, scale.offset)
    if config.temperature_scale is None:
        return q
    return r.builder.position_scale(q, config.temperature_length, config.temperature_scale)


def _rotates(r: Recorder, layer: int) -> bool:
    row = r.architecture
    return row.rope is not None and not row.alibi(r.config) and row.rotates(r.config, layer)


def reach(r: Recorder, layer: int) -> int | None:
    """Keys from the first that a query sees to its own."""
    window = r.config.windows[layer]
    return window if window is None or r.config.causal else window // 2 + 1


def _source_of_keys(r: Recorder, layer: int) -> int | None:
    """The layer whose keys and values this one uses: the last of its kind that has its own."""
    own = r.config.num_layers - r.config.shared_kv_layers
    if layer < own:
        return None
    window, shape = r.config.windows[layer], r.config.num_kv_heads[layer]
    for source in reversed(range(own)):
        if r.config.windows[source] == window and r.config.num_kv_heads[source] == shape:
            return source
    raise GGUFError(
        f"{r.config.architecture}.attention.shared_kv_layers is {r.config.shared_kv_layers}: "
        f"no layer before blk.{own} has keys as blk.{layer} needs them"
    )


def _queries(r: Recorder, layer: int, x: Value) -> Value:
    """Of a layer without keys; what a file brings for those is left."""
    for part in ("attn_k.weight", "attn_v.weight", "attn_k_norm.weight"):
        r.weights.leave(f"blk.{layer}.{part}")
    width = r.config.num_heads[layer] * r.config.head_dim_of(layer)
    return r.linear(x, f"blk.{layer}.attn_q", width)


def _projections(r: Recorder, layer: int, x: Value) -> tuple[Value, Value, Value]:
    """Queries, keys and values: from one matrix, or from three, or two."""
    prefix, head_dim, row = f"blk.{layer}", r.config.head_dim_of(layer), r.architecture
    kv_heads = r.config.num_kv_heads[layer]
    q_width = r.config.num_heads[layer] * head_dim * (2 if row.gated_queries else 1)
    k_width, v_width = kv_heads * head_dim, kv_heads * r.config.value_dim_of(layer)
    if r.offers(f"{prefix}.attn_qkv"):
        q, k, v = r.fused_linear(x, f"{prefix}.attn_qkv", (q_width, k_width, v_width))
    else:
        q = r.linear(x, f"{prefix}.attn_q", q_width)
        k = r.linear(x, f"{prefix}.attn_k", k_width)
        may_share = row.values_from_keys and r.config.windows[layer] is None
        same = may_share and not r.has(f"{prefix}.attn_v")
        v = k if same else r.linear(x, f"{prefix}.attn_v", v_width)
    if row.value_norm:
        v = r.builder.rms_norm(v, None, r.config.norm_eps, kv_heads)
    return q, k, v


def _clamped(r: Recorder, x: Value) -> Value:
    limit = r.config.clamp_qkv
    return x if limit is None else r.builder.clamp(x, limit)


def _placed(r: Recorder, layer: int, x: Value, norm: str, heads: int) -> Value:
    """Queries or keys normed and rotated, in the family's order; normed where queries are."""
    row, prefix = r.architecture, f"blk.{layer}"
    is_normed = r.offers(f"{prefix}.attn_q_norm") and not row.plain_qk_norm(r.config)
    if is_normed and not row.qk_norm_last:
        x = r.head_norm(x, f"{prefix}.{norm}", heads)
    if row.rope is not None and _rotates(r, layer):
        x = r.builder.rope(x, r.rope_table(layer), heads, layout(r, row.rope))
        if row.plain_qk_norm(r.config):
            x = r.builder.rms_norm(x, None, r.config.norm_eps, heads)
            return _times_gains(r, x, f"{prefix}.{norm}", heads)
    if is_normed and row.qk_norm_last:
        x = r.head_norm(x, f"{prefix}.{norm}", heads)
    return x


def _times_gains(r: Recorder, x: Value, name: str, heads: int) -> Value:
    """Each head times its number, where the file has them."""
    if not r.offers(name):
        return x
    gains = r.weights.matrix_float32(f"{name}.weight", heads, 1).data.view(np.float32)[:, 0]
    return r.builder.multiply_columns(x, vector(name, np.repeat(gains, x.width // heads)))


def layout(r: Recorder, layout: RopeLayout) -> RopeLayout:
    """Text has the same position in all sections, so that only the pairing differs."""
    return "split" if r.architecture.sections_split and r.config.rope_sections else layout
