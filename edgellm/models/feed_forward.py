"""The feed-forward half of a layer: one gated network, or the chosen few of many experts."""

from edgellm.errors import GGUFError
from edgellm.kernels.program import Value, Weight
from edgellm.models.recorder import Recorder


def gated_mlp(r: Recorder, layer: int, x: Value) -> Value:
    """down(activation(gate(x)) * up(x)). x (T, hidden_size), normed, and so the result."""
    prefix, width = f"blk.{layer}", r.config.intermediate_size[layer]
    gate = r.linear(x, f"{prefix}.ffn_gate", width)
    up = r.linear(x, f"{prefix}.ffn_up", width)
    return r.linear(_gated(r, gate, up), f"{prefix}.ffn_down", r.config.hidden_size)


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
    if r.weights.has(f"{name}.bias"):
        bias = r.weights.matrix_float32(f"{name}.bias", experts, width)
    return r.builder.moe_matmul(
        x,
        routing,
        r.weights.matrix(f"{name}.weight", width, columns, matrices=experts),
        experts=experts,
        bias=bias,
        scale=r.weights.optional_vector(f"{name}.scale", experts),
    )
