"""Grouped-query attention with rotary positions, in the variants that files tell apart."""

import math

from edgellm.kernels.program import Value
from edgellm.models.recorder import Recorder


def grouped_query_attention(r: Recorder, layer: int, x: Value) -> Value:
    """Heads that share keys and values in groups. x (T, hidden_size), normed, and so the result.

    q and k norms, biases and attention sinks apply where the file has them.
    Sources: Ainslie et al. 2023; Xiao et al. 2023 (sinks).
    """
    config, b, prefix = r.config, r.builder, f"blk.{layer}"
    heads, kv_heads = config.num_heads[layer], config.num_kv_heads[layer]
    q = r.linear(x, f"{prefix}.attn_q", heads * config.head_dim)
    k = r.linear(x, f"{prefix}.attn_k", kv_heads * config.head_dim)
    v = r.linear(x, f"{prefix}.attn_v", kv_heads * config.head_dim)
    q = r.optional_norm(q, f"{prefix}.attn_q_norm", heads)
    k = r.optional_norm(k, f"{prefix}.attn_k_norm", kv_heads)
    table, layout = r.rope_table(layer), r.architecture.rope
    mixed = b.attention(
        b.rope(q, table, heads, layout),
        b.rope(k, table, kv_heads, layout),
        v,
        num_heads=heads,
        num_kv_heads=kv_heads,
        scale=_score_scale(r),
        window=config.windows[layer],
        sinks=r.weights.optional_vector(f"{prefix}.attn_sinks.weight", heads),
    )
    return r.linear(mixed, f"{prefix}.attn_output", config.hidden_size)


def _score_scale(r: Recorder) -> float:
    if r.config.attention_scale is not None:
        return r.config.attention_scale
    width = r.architecture.attention_width
    return 1 / math.sqrt(r.config.head_dim if width is None else width(r.config))
