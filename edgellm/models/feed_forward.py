"""The feed-forward half of a layer without experts."""

import math

import numpy as np

from edgellm.kernels.ops import UnaryActivation
from edgellm.kernels.program import Value
from edgellm.models.recorder import Recorder, vector


def mlp(r: Recorder, layer: int, x: Value, width: int | None = None) -> Value:
    """down(activation(gate(x)) * up(x)), or without a gate down(activation(up(x))).

    x (T, hidden_size), normed, and so the result. Gate and up may lie in one matrix, in that order.
    width: of the numbers in between, the file's unless given.
    """
    prefix, width = f"blk.{layer}", width or r.config.intermediate_size[layer]
    if not _has_gate(r, f"{prefix}.ffn", width):
        hidden = _calibrated(r, layer, r.linear(x, f"{prefix}.ffn_up", width))
    elif not r.has(f"{prefix}.ffn_gate") and is_fused(r, f"{prefix}.ffn_up", width):
        gate, up = r.fused_linear(x, f"{prefix}.ffn_up", (width, width))
        hidden = gated(r, gate, up)
    else:
        deviations = r.config.gate_deviations[layer]
        hidden = gate_and_up(r, x, f"{prefix}.ffn", "", width, deviations=deviations)
    hidden = r.optional_norm(hidden, f"{prefix}.ffn_sub_norm")
    return r.linear(hidden, f"{prefix}.ffn_down", r.config.hidden_size)


def gate_and_up(
    r: Recorder,
    x: Value,
    prefix: str,
    suffix: str,
    width: int,
    *,
    deviations: float | None = None,
    limit: float | None = None,
) -> Value:
    """activation(gate(x)) * up(x) by the matrices prefix_gate + suffix and prefix_up + suffix.

    deviations: gates become those that Builder.gaussian_top_k keeps. limit: as `gated` takes it.
    """
    gate = r.linear(x, f"{prefix}_gate{suffix}", width)
    if deviations is not None:
        gate = r.builder.gaussian_top_k(gate, deviations)
    return gated(r, gate, r.linear(x, f"{prefix}_up{suffix}", width), limit)


def _has_gate(r: Recorder, name: str, width: int) -> bool:
    if not r.architecture.gate_optional:
        return r.architecture.gated
    return r.offers(f"{name}_gate") or is_fused(r, f"{name}_up", width)


def is_fused(r: Recorder, name: str, width: int) -> bool:
    """Whether the matrix `name` holds gate and up, each to `width`."""
    return r.offers(name) and r.weights.shape(f"{name}.weight")[-1] == 2 * width


def activated(r: Recorder, x: Value, other: UnaryActivation | None = None) -> Value:
    """activation(x), with the model's activation unless another is given."""
    activation = other or r.config.activation
    assert activation != "swiglu_clamped" and activation != "bilinear"  # they need a gate
    return r.builder.activate(x, activation)


def _calibrated(r: Recorder, layer: int, x: Value) -> Value:
    """Also undoes the scales that AWQ calibration put into the weights. Source: Lin et al. 2023."""
    if r.config.xielu:
        shape = r.config.xielu[layer]
        return r.builder.xielu(x, shape.alpha_p, shape.alpha_n, shape.beta)
    y = activated(r, x, r.architecture.ungated_activation)
    scales = r.weights.optional_vector(f"blk.{layer}.ffn.act.scales", x.width)
    if scales is None:
        return y
    with np.errstate(divide="ignore"):
        inverse = 1 / scales.data.view(np.float32)[0]
    return r.builder.multiply_columns(y, vector(f"1 / {scales.name}", inverse))


def gated(r: Recorder, gate: Value, up: Value, limit: float | None = None) -> Value:
    """activation(gate) * up, with the model's activation. limit: largest magnitude of both
    factors, for activations that are never far below 0.
    """
    a, b = r.architecture, r.builder
    if limit is not None:
        most = limit / (1 + math.exp(-limit)) if a.limits_gate_input else limit  # SiLU of it
        return b.gated(b.clamp(activated(r, gate), most), b.clamp(up, limit), "bilinear")
    return r.builder.gated(
        gate, up, r.config.activation, alpha=a.activation_alpha, limit=a.activation_limit
    )
