"""RWKV-6 and what was made of Qwen with it: linear attention instead of attention.

x (T, hidden_size), normed, and so the results. Source: Peng et al. 2024 (Eagle and Finch).
"""

import math

import numpy as np

from edgellm.errors import GGUFError
from edgellm.kernels.program import Value
from edgellm.models.recorder import Recorder
from edgellm.models.rwkv import group_norm
from edgellm.models.weights import float_matrix, rows_of

PARTS = "wkvrg"


def data_dependent_time_mix(r: Recorder, layer: int, x: Value) -> Value:
    """Each part reads the token mixed with the one before, in shares that the token itself says.

    Files with a bonus are RWKV-6's; without one, keys take what states forget, and all heads are
    scaled instead of normed (RWKV-6 Qwen2).
    """
    b, prefix, hidden = r.builder, f"blk.{layer}.time_mix", x.width
    (size,) = r.config.recurrent.require("wkv.head_size")
    if hidden % size:
        name = f"{r.config.architecture}.wkv.head_size"
        raise GGUFError(f"{name} is {size}, expected a divisor of {hidden}")
    heads = hidden // size
    kv_heads = r.config.num_kv_heads[layer] or heads
    bonus = r.weights.optional_matrix_float32(f"{prefix}_first.weight", heads, size)
    mixed = _mixed_parts(r, x, prefix)
    receptance = r.linear(mixed["r"], f"{prefix}_receptance", hidden)
    key = _repeated(r, r.linear(mixed["k"], f"{prefix}_key", kv_heads * size), kv_heads, heads)
    value = _repeated(r, r.linear(mixed["v"], f"{prefix}_value", kv_heads * size), kv_heads, heads)
    gate = r.linear(mixed["g"], f"{prefix}_gate", hidden)
    decay = b.activate(_decay(r, mixed["w"], f"{prefix}_decay"), "gompertz")
    if bonus is None:
        key = b.add(key, b.multiply(b.gated(key, decay, "bilinear"), -1.0))
        receptance = b.multiply(receptance, 1 / math.sqrt(size))
    y = b.linear_attention(receptance, decay, key, value, bonus, heads=heads)
    y = group_norm(r, y, f"{prefix}_ln", heads)
    y = b.gated(gate, y, "sigmoid" if bonus is None else "silu")
    return r.linear(y, f"{prefix}_output", hidden)


def _mixed_parts(r: Recorder, x: Value, prefix: str) -> dict[str, Value]:
    """By part: x, and of the difference to the token before as much as it wants."""
    b, hidden = r.builder, x.width
    (rank,) = r.config.recurrent.require("time_mix_extra_dim")
    taps = float_matrix("before less now", np.tile(np.array([1, -1], np.float32), (hidden, 1)))
    back = b.short_convolution(x, taps)
    first = r.weights.matrix_float32(f"{prefix}_lerp_x.weight", 1, hidden, shape=(hidden,))
    read = b.add(x, b.multiply_columns(back, first))
    low = b.softcap(r.linear(read, f"{prefix}_w1", len(PARTS) * rank), 1.0)
    to_shares = r.weights.matrix(f"{prefix}_w2.weight", hidden, rank, matrices=len(PARTS))
    shares = b.head_matmul(low, to_shares, len(PARTS))
    if r.offers(f"{prefix}_lerp_fused"):
        shape = (hidden, 1, 1, len(PARTS))
        fused = r.weights.matrix_float32(f"{prefix}_lerp_fused.weight", len(PARTS), hidden, shape)
        constant = [rows_of(fused, i, 1) for i in range(len(PARTS))]
    else:
        names = (f"{prefix}_lerp_{part}.weight" for part in PARTS)
        constant = [r.weights.matrix_float32(n, 1, hidden, shape=(hidden,)) for n in names]
    mixed = {}
    for i, part in enumerate(PARTS):
        share = b.add_columns(b.columns(shares, i * hidden, hidden), constant[i])
        mixed[part] = b.add(x, b.gated(share, back, "bilinear"))
    return mixed


def _decay(r: Recorder, x: Value, name: str) -> Value:
    """w2 tanh(w1 x) + a constant."""
    (rank,) = r.config.recurrent.require("time_decay_extra_dim")
    inner = r.builder.softcap(r.linear(x, f"{name}_w1", rank), 1.0)
    outer = r.weights.matrix(f"{name}_w2.weight", x.width, rank)
    return r.builder.matmul(inner, outer, r.weights.vector(f"{name}.weight", x.width))


def _repeated(r: Recorder, x: Value, kv_heads: int, heads: int) -> Value:
    """Each head of keys or values, for all heads that share it."""
    repeated = x
    for _ in range(heads // kv_heads - 1):
        repeated = r.builder.concat_heads(repeated, x, kv_heads)
    return repeated
