"""Multi-head latent attention in its absorbed form.

A token's keys and values are one short row, the latent, and a few numbers that carry its position.
Every head makes its own keys and values from the latent by two matrices. Instead of unfolding the
past, queries are brought into the space of the latent, and mixed latents out of it:
q . (W_key c) = (W_key^T q) . c. So there is one head of keys, whose first numbers are the values.
Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1.
"""

import math

import numpy as np

from edgellm.errors import GGUFError
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.program import Value, Weight
from edgellm.models.attention import gated_by_projection, layout, reach
from edgellm.models.latent_config import LatentConfig
from edgellm.models.recorder import Recorder
from edgellm.models.weights import float_matrix


def latent_attention(r: Recorder, layer: int, x: Value) -> Value:
    """x (T, hidden_size), normed, and so the result."""
    config, b, prefix = r.config, r.builder, f"blk.{layer}"
    latent, heads = _config(r, layer, f"{prefix}.attn_kv_a_mqa"), config.num_heads[layer]
    q = _queries(r, layer, x, heads * latent.head_dim)
    q_plain = b.columns(q, 0, max(latent.plain_dim, 1), heads)
    q_position = b.columns(q, latent.plain_dim, latent.rope_dim, heads)
    stored = r.linear(x, f"{prefix}.attn_kv_a_mqa", latent.rank + latent.rope_dim)
    c = r.norm(b.columns(stored, 0, latent.rank), f"{prefix}.attn_kv_a_norm")
    k_position = b.columns(stored, latent.rank, latent.rope_dim)
    k_position = r.optional_norm(k_position, f"{prefix}.attn_k_norm")
    to_latent, to_values, values_part = _matrices(r, layer, latent, heads)
    q = b.concat_heads(
        b.head_matmul(q_plain, to_latent, heads), _rotated(r, layer, q_position, heads), heads
    )
    if config.temperature_scale is not None:
        q = b.position_scale(q, config.temperature_length, config.temperature_scale)
    mixed = b.attention(
        q,
        b.concat_heads(c, _rotated(r, layer, k_position, 1), 1),
        None,
        num_heads=heads,
        num_kv_heads=1,
        scale=latent.score_factor / math.sqrt(latent.head_dim),
        window=reach(r, layer),
        value_dim=latent.rank,
    )
    values = gated_by_projection(r, layer, b.head_matmul(mixed, to_values, heads, values_part), x)
    return r.linear(values, f"{prefix}.attn_output", config.hidden_size)


def _config(r: Recorder, layer: int, name: str) -> LatentConfig:
    latent = r.config.latent_of(layer)
    if latent is None:
        raise GGUFError(
            f"tensor {name}.weight makes latents of keys and values, "
            f"and {r.config.architecture}.attention.kv_lora_rank does not say how wide they are"
        )
    return latent


def _queries(r: Recorder, layer: int, x: Value, width: int) -> Value:
    """From the hidden state, or from a latent of their own.

    Precise: what is rounded here goes through up to three products before it meets a softmax.
    """
    prefix = f"blk.{layer}"
    if not r.offers(f"{prefix}.attn_q_a"):
        return r.precise_linear(x, f"{prefix}.attn_q", width)
    rank = _config(r, layer, f"{prefix}.attn_q_a").query_rank
    low = r.precise_linear(x, f"{prefix}.attn_q_a", rank)
    return r.precise_linear(r.norm(low, f"{prefix}.attn_q_a_norm"), f"{prefix}.attn_q_b", width)


def _rotated(r: Recorder, layer: int, x: Value, heads: int) -> Value:
    """By position, in families that do."""
    row = r.architecture
    if row.rope is None or not row.rotates(r.config, layer):
        return x
    return r.builder.rope(x, r.rope_table(layer), heads, layout(r, row.rope))


def _matrices(
    r: Recorder, layer: int, latent: LatentConfig, heads: int
) -> tuple[Weight, Weight, slice]:
    """By head: what brings queries to the latent, and latents to values (those rows of a matrix).

    Files have them apart and the first one turned, or in one matrix with both rows of each head.
    """
    prefix, rank, plain, value = f"blk.{layer}", latent.rank, latent.plain_dim, latent.value_dim
    if r.offers(f"{prefix}.attn_k_b"):
        to_latent = r.weights.matrix(f"{prefix}.attn_k_b.weight", rank, plain, matrices=heads)
        to_values = r.weights.matrix(f"{prefix}.attn_v_b.weight", value, rank, matrices=heads)
        return to_latent, to_values, slice(None)
    both = r.weights.matrix(f"{prefix}.attn_kv_b.weight", heads * (plain + value), rank)
    if not plain:  # positions are all that queries and keys have
        nothing = np.zeros((heads * rank, 1), np.float32)
        return float_matrix(f"{both.name} (no keys)", nothing), both, slice(0, value)
    by_head = both.data.reshape(heads, plain + value, -1)[:, :plain]
    keys = dequantize_rows(both.format, by_head.reshape(heads * plain, -1))
    turned = keys.reshape(heads, plain, rank).swapaxes(1, 2).reshape(heads * rank, plain)
    name = f"{both.name} (keys, turned)"
    return float_matrix(name, turned), both, slice(plain, plain + value)
