"""RWKV-7: a recurrence instead of attention, and a feed-forward block that looks one token back.

x (T, hidden_size), normed, and so the results. Source: Peng et al. 2025 (RWKV-7 "Goose").
"""

import numpy as np

from edgellm.errors import GGUFError
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.program import Value, Weight
from edgellm.models.recorder import Recorder, vector

GROUP_NORM_EPS = 64e-5
UNIT_EPS = 1e-24  # of the squared length of a key
PARTS = "rwkvag"  # what the rows of time_mix_lerp_fused are for, g where there is a gate


def time_mix(r: Recorder, layer: int, x: Value) -> Value:
    """Each part of the recurrence reads the token mixed with the one before, in shares of its own.

    Layers after the first also mix their values with the first one's.
    """
    b, prefix, hidden = r.builder, f"blk.{layer}.time_mix", x.width
    (width,) = r.config.recurrent.require("wkv.head_size")
    if hidden % width:
        name = f"{r.config.architecture}.wkv.head_size"
        raise GGUFError(f"{name} is {width}, expected a divisor of {hidden}")
    heads = hidden // width
    mixed = _mixed_parts(r, x, f"{prefix}_lerp_fused")
    receptance = r.linear(mixed["r"], f"{prefix}_receptance", hidden)
    decay = _low_rank(r, mixed["w"], f"{prefix}_w", "attention.decay_lora_rank", tanh=True)
    rate = _low_rank(r, mixed["a"], f"{prefix}_a", "attention.iclr_lora_rank")
    rate = b.activate(rate, "sigmoid")
    value = _value(r, layer, mixed["v"], prefix)
    key = r.linear(mixed["k"], f"{prefix}_key", hidden)
    scaled = b.multiply_columns(key, r.weights.vector(f"{prefix}_k_k.weight", hidden))
    unit = vector("1 / sqrt(head_size)", np.full(width, width**-0.5, np.float32))
    removal = b.rms_norm(scaled, unit, UNIT_EPS / width, heads)
    part = b.multiply_columns(key, r.weights.vector(f"{prefix}_k_a.weight", hidden))
    key = b.add(key, b.add(b.gated(rate, part, "bilinear"), b.multiply(part, -1.0)))
    y = b.wkv7(
        receptance,
        decay,
        key,
        value,
        b.multiply(removal, -1.0),
        b.gated(removal, rate, "bilinear"),
        heads=heads,
    )
    y = group_norm(r, y, f"{prefix}_ln", heads)
    y = b.add(y, _bonus(r, receptance, key, value, f"{prefix}_r_k", heads))
    if "g" in mixed:
        rank = _rank(r, "attention.gate_lora_rank")
        gate = b.activate(r.linear(mixed["g"], f"{prefix}_g1", rank), "sigmoid")
        y = b.gated(r.linear(gate, f"{prefix}_g2", hidden), y, "bilinear")
    return r.linear(y, f"{prefix}_output", hidden)


def group_norm(r: Recorder, x: Value, name: str, heads: int) -> Value:
    """Of each head, where the file has its weight and bias."""
    if not r.offers(name):
        return x
    shape = x.width // heads
    weight, bias = (
        r.weights.matrix_float32(f"{name}.{part}", heads, shape, shape=(x.width,))
        for part in ("weight", "bias")
    )
    return r.builder.layer_norm(x, weight, bias, GROUP_NORM_EPS, heads)


def channel_mix(r: Recorder, layer: int, x: Value) -> Value:
    """value(max(key(x), 0)^2) of the token mixed with the one before, which RWKV-6 gates."""
    prefix, width = f"blk.{layer}.channel_mix", r.config.intermediate_size[layer]
    key = r.linear(_mixed(r, x, _share(r, f"{prefix}_lerp_k", x), 0), f"{prefix}_key", width)
    out = r.linear(r.builder.activate(key, "relu2"), f"{prefix}_value", x.width)
    if not r.offers(f"{prefix}_receptance"):
        return out
    read = _mixed(r, x, _share(r, f"{prefix}_lerp_r", x), 0)
    return r.builder.gated(r.linear(read, f"{prefix}_receptance", x.width), out, "sigmoid")


def _share(r: Recorder, name: str, x: Value) -> Weight:
    return r.weights.matrix_float32(f"{name}.weight", 1, x.width, shape=(x.width,))


def _mixed_parts(r: Recorder, x: Value, name: str) -> dict[str, Value]:
    """By part, x mixed with the row before it."""
    shape = r.weights.shape(f"{name}.weight") if r.has(name) else ()
    count = len(PARTS) if shape[-1:] == (len(PARTS),) else len(PARTS) - 1
    shares = r.weights.matrix_float32(f"{name}.weight", count, x.width, (x.width, 1, 1, count))
    return {part: _mixed(r, x, shares, row) for row, part in enumerate(PARTS[:count])}


def _mixed(r: Recorder, x: Value, shares: Weight, row: int) -> Value:
    """(1 - share) x + share (the row before): a convolution with two taps."""
    share = dequantize_rows(shares.format, shares.data[row : row + 1])[0]
    taps = np.ascontiguousarray(np.stack([share, 1 - share], axis=1), np.float32)
    name = f"{shares.name}[{row}]"
    weight = Weight(name, shares.type_id, x.width, 2, taps.view(np.uint8))
    return r.builder.short_convolution(x, weight)


def _rank(r: Recorder, key: str) -> int:
    (rank,) = r.config.recurrent.require(key)
    return rank


def _low_rank(r: Recorder, x: Value, name: str, key: str, tanh: bool = False) -> Value:
    """name2 name1 x + name0, with tanh in between where wanted."""
    inner = r.linear(x, f"{name}1", _rank(r, key))
    if tanh:
        inner = r.builder.softcap(inner, 1.0)
    outer = r.weights.matrix(f"{name}2.weight", x.width, inner.width)
    return r.builder.matmul(inner, outer, r.weights.vector(f"{name}0.weight", x.width))


def _value(r: Recorder, layer: int, x: Value, prefix: str) -> Value:
    """The layer's own values, and of the first layer's as much as the token wants."""
    b, value = r.builder, r.linear(x, f"{prefix}_value", x.width)
    if r.first_value is None:
        r.first_value = value
        return value
    share = _low_rank(r, x, f"{prefix}_v", "attention.value_residual_mix_lora_rank")
    difference = b.add(r.first_value, b.multiply(value, -1.0))
    return b.add(value, b.gated(share, difference, "sigmoid"))


def _bonus(r: Recorder, a: Value, k: Value, v: Value, name: str, heads: int) -> Value:
    """v of each head, times the sum of a * k * weight over the head."""
    b, width = r.builder, v.width // heads
    weight = r.weights.matrix_float32(f"{name}.weight", 1, v.width, shape=(v.width,))
    product = b.multiply_columns(b.gated(a, k, "bilinear"), weight)
    ones = np.ones((v.width, width), np.float32)
    everywhere = Weight("ones", weight.type_id, v.width, width, ones.view(np.uint8))
    return b.gated(b.head_matmul(product, everywhere, heads), v, "bilinear")
