"""Alternating updates (Gemma 3n): a residual stream of several, of which one goes through a layer.

Before a layer all streams are predicted from all; behind it all are corrected by what the active
one has become against its prediction. The layer has a low-rank branch beside attention (LAuReL).
Sources: Baykal et al. 2023 (AltUp); Menghani et al. 2024 (LAuReL); Gemma 3n (Google 2025).
"""

import math
from collections.abc import Sequence

import numpy as np

from edgellm.kernels.program import Value
from edgellm.models.altup_config import AltUpConfig
from edgellm.models.attention import grouped_query_attention
from edgellm.models.feed_forward import mlp
from edgellm.models.per_layer_inputs import layer_part
from edgellm.models.recorder import Recorder
from edgellm.models.weights import float_matrix, rows_of

LEAST_SQUARE = 1e-12  # of a stream's numbers on average, where lengths are compared


def altup_layers(r: Recorder, config: AltUpConfig, x: Value) -> Value:
    """All layers, from the embedding x (T, hidden_size) to the mean of the streams."""
    streams = [x, *_projected(r, "altup_proj", [x] * (config.streams - 1), x)]
    for layer in range(r.config.num_layers):
        streams = [r.adapting.layer(s, layer) for s in _layer(r, config, layer, streams)]
    back = _projected(r, "altup_unembd_proj", streams[1:], streams[config.active])
    return r.builder.multiply(_sum(r, [streams[0], *back]), 1 / config.streams)


def _projected(r: Recorder, name: str, streams: Sequence[Value], like: Value) -> list[Value]:
    """Each stream by a matrix of its own, and as long as `like`."""
    hidden, b = r.config.hidden_size, r.builder
    matrices = r.weights.matrix(f"{name}.weight", hidden, hidden, matrices=len(streams))
    unit = b.rms_norm(like, None, LEAST_SQUARE)
    mean = float_matrix("1 / hidden_size", np.full((1, hidden), 1 / hidden, np.float32))
    length = b.matmul(b.gated(like, unit, "bilinear"), mean)  # root of the mean square
    return [
        b.scale_heads(
            b.rms_norm(b.matmul(x, rows_of(matrices, i * hidden, hidden)), None, LEAST_SQUARE),
            length,
        )
        for i, x in enumerate(streams)
    ]


def _layer(r: Recorder, config: AltUpConfig, layer: int, streams: list[Value]) -> list[Value]:
    b, prefix = r.builder, f"blk.{layer}"
    predicted = _predicted(r, config, layer, streams)
    active = predicted[config.active]
    corrected = _corrected(r, config, layer, predicted, _blocks(r, layer, active))
    scale = r.weights.vector(f"{prefix}.altup_correct_scale.weight", r.config.hidden_size)
    part = layer_part(r, layer, b.multiply_columns(corrected[config.active], scale))
    return [corrected[0], *(b.add(x, part) for x in corrected[1:])]


def _blocks(r: Recorder, layer: int, x: Value) -> Value:
    """Attention beside the low-rank branch, then the feed-forward block, each with its residual."""
    b, prefix = r.builder, f"blk.{layer}"
    normed = r.norm(x, f"{prefix}.attn_norm")
    attended = r.norm(grouped_query_attention(r, layer, normed), f"{prefix}.post_attention_norm")
    both = b.add(b.add(x, attended), _low_rank(r, layer, normed))
    x = b.multiply(both, 1 / math.sqrt(2))
    out = mlp(r, layer, r.norm(x, f"{prefix}.ffn_norm"))
    return b.add(x, r.norm(out, f"{prefix}.post_ffw_norm"))


def _low_rank(r: Recorder, layer: int, x: Value) -> Value:
    """The file's left matrix says of what rank."""
    prefix = f"blk.{layer}.laurel"
    shape = r.weights.shape(f"{prefix}_l.weight") if r.has(f"{prefix}_l") else ()
    inner = r.linear(x, f"{prefix}_l", shape[1] if len(shape) > 1 else 1)
    out = r.norm(r.linear(inner, f"{prefix}_r", r.config.hidden_size), f"{prefix}_post_norm")
    return r.builder.add(x, out)


def _modalities(r: Recorder, config: AltUpConfig, layer: int, x: Value) -> Value:
    """(T, streams): what the coefficients are made from."""
    normed = r.norm(x, f"blk.{layer}.altup_router_norm")
    read = r.builder.multiply(normed, 1 / r.config.hidden_size)
    return r.builder.softcap(r.linear(read, f"blk.{layer}.altup_router", config.streams), 1.0)


def _predicted(r: Recorder, config: AltUpConfig, layer: int, streams: list[Value]) -> list[Value]:
    """Each stream, and of all streams as much as its coefficients say."""
    b, n = r.builder, config.streams
    modalities = _modalities(r, config, layer, streams[config.active])
    coefficients = r.linear(modalities, f"blk.{layer}.altup_predict_coef", n * n)

    def share(of: int, to: int) -> Value:
        return b.scale_heads(streams[of], b.columns(coefficients, to * n + of, 1))

    return [_sum(r, [streams[to], *(share(of, to) for of in range(n))]) for to in range(n)]


def _corrected(
    r: Recorder, config: AltUpConfig, layer: int, predicted: list[Value], active: Value
) -> list[Value]:
    """Each prediction, and as much of the active one's error as its coefficient and 1 say."""
    b = r.builder
    modalities = _modalities(r, config, layer, active)
    coefficients = r.linear(modalities, f"blk.{layer}.altup_correct_coef", config.streams)
    error = b.add(active, b.multiply(predicted[config.active], -1.0))
    return [
        _sum(r, [x, error, b.scale_heads(error, b.columns(coefficients, i, 1))])
        for i, x in enumerate(predicted)
    ]


def _sum(r: Recorder, parts: Sequence[Value]) -> Value:
    total = parts[0]
    for part in parts[1:]:
        total = r.builder.add(total, part)
    return total
