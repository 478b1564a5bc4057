"""The feed-forward half of a layer: one gated network, or the chosen few of many experts."""

import numpy as np

from edgellm.errors import GGUFError
from edgellm.kernels.program import Value, Weight
from edgellm.models.recorder import Recorder, vector


def mlp(r: Recorder, layer: int, x: Value) -> Value:
    """down(activation(gate(x)) * up(x)), or without a gate down(activation(up(x))).

    x (T, hidden_size), normed, and so the result. Gate and up may lie in one matrix, in that order.
    """
    prefix, width = f"blk.{layer}", r.config.intermediate_size[layer]
    if not r.architecture.gated:
        hidden = _activated(r, layer, r.linear(x, f"{prefix}.ffn_up", width))
    elif not r.has(f"{prefix}.ffn_gate") and _is_fused(r, f"{prefix}.ffn_up", width):
        hidden = _gated(r, *r.fused_linear(x, f"{prefix}.ffn_up", (width, width)))
    else:
        gate = r.linear(x, f"{prefix}.ffn_gate", width)
        hidden = _gated(r, gate, r.linear(x, f"{prefix}.ffn_up", width))
    hidden = r.optional_norm(hidden, f"{prefix}.ffn_sub_norm")
    return r.linear(hidden, f"{prefix}.ffn_down", r.config.hidden_size)


def _is_fused(r: Recorder, name: str, width: int) -> bool:
    return r.offers(name) and r.weights.shape(f"{name}.weight")[-1] == 2 * width


def _activated(r: Recorder, layer: int, x: Value) -> Value:
    """Also undoes the scales that AWQ calibration put into the weights. Source: Lin et al. 2023."""
    if r.config.xielu:
        shape = r.config.xielu[layer]
        return r.builder.xielu(x, shape.alpha_p, shape.alpha_n, shape.beta)
    activation = r.architecture.activation
    assert activation != "swiglu_clamped" and activation != "bilinear"  # they need a gate
    y = r.builder.activate(x, activation)
    scales = r.weights.optional_vector(f"blk.{layer}.ffn.act.scales", x.width)
    if scales is None:
        return y
    with np.errstate(divide="ignore"):
        inverse = 1 / scales.data.view(np.float32)[0]
    return r.builder.multiply_columns(y, vector(f"1 / {scales.name}", inverse))


def expert_mlp(r: Recorder, layer: int, x: Value) -> Value:
    """A router weighs num_experts_used gated networks per token. Source: Shazeer et al. 2017."""
    config, b, prefix = r.config, r.builder, f"blk.{layer}"
    if not config.num_experts:
        raise GGUFError(
            f"tensor {prefix}.ffn_gate_inp.weight routes to experts, "
            f"and {config.architecture}.expert_count says there are none"
        )
    routing = b.moe_route(
        r.linear(x, f"{prefix}.ffn_gate_inp", config.num_experts),
        config.num_experts_used,
        gating=r.architecture.gating,
        normalize=r.architecture.normalize_gates,
    )
    width = config.expert_intermediate_size
    gate = _experts(r, x, routing, f"{prefix}.ffn_gate_exps", width, x.width)
    up = _experts(r, x, routing, f"{prefix}.ffn_up_exps", width, x.width)
    down = _experts(
        r, _gated(r, gate, up), routing, f"{prefix}.ffn_down_exps", config.hidden_size, width
    )
    return b.moe_combine(down, routing)


def _gated(r: Recorder, gate: Value, up: Value) -> Value:
    a = r.architecture
    return r.builder.gated(
        gate, up, a.activation, alpha=a.activation_alpha, limit=a.activation_limit
    )


def _experts(r: Recorder, x: Value, routing: Value, name: str, width: int, columns: int) -> Value:
    experts = r.config.num_experts
    bias: Weight | None = None
    if r.weights.offers(f"{name}.bias"):
        bias = r.weights.matrix_float32(f"{name}.bias", experts, width)
    return r.builder.moe_matmul(
        x,
        routing,
        r.weights.matrix(f"{name}.weight", width, columns, matrices=experts),
        experts=experts,
        bias=bias,
        scale=r.weights.optional_vector(f"{name}.scale", experts),
    )
