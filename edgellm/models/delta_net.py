"""Linear attention by the delta rule. x (T, hidden_size), normed, and so the results."""

import math
from collections.abc import Iterator

import numpy as np

from edgellm.kernels.program import Value, Weight
from edgellm.models.convolution import convolved
from edgellm.models.recorder import Recorder, vector
from edgellm.models.weights import float_matrix, rows_of


def gated_delta_net(r: Recorder, layer: int, x: Value) -> Value:
    """One decay for each head; keys and queries are shared by heads of values.

    Source: Yang et al. 2024, as Qwen3-Next and Qwen3.5 have it.
    """
    b, prefix, recurrent = r.builder, f"blk.{layer}", r.config.recurrent
    inner, kernel, key_dim, heads, key_heads = recurrent.require(
        "ssm.inner_size",
        "ssm.conv_kernel",
        "ssm.state_size",
        "ssm.time_step_rank",
        "ssm.group_count",
    )
    value_dim = recurrent.divided("ssm.inner_size", "ssm.time_step_rank")
    shared = recurrent.divided("ssm.time_step_rank", "ssm.group_count")
    *mixed, gate = _projections(r, x, prefix, key_heads, key_dim, shared * value_dim)
    q, k, v = _convolved(r, mixed, f"{prefix}.ssm_conv1d.weight", kernel)
    beta, alpha = _rates(r, x, prefix, key_heads, shared)
    y = b.delta_rule(
        _unit(r, q, key_heads, key_dim**-0.5),
        _unit(r, k, key_heads),
        v,
        b.softplus(alpha, r.weights.vector(f"{prefix}.ssm_dt.bias", heads)),
        beta,
        r.weights.vector(f"{prefix}.ssm_a", heads),
        key_heads=key_heads,
        order=r.architecture.key_heads,
    )
    y = b.rms_norm(
        y, r.weights.vector(f"{prefix}.ssm_norm.weight", value_dim), r.config.norm_eps, heads
    )
    return r.linear(b.gated(gate, y, "silu"), f"{prefix}.ssm_out", r.config.hidden_size)


def kimi_delta_attention(r: Recorder, layer: int, x: Value) -> Value:
    """A decay for each dimension of a key. Source: Kimi Team 2025 (Kimi Linear)."""
    b, prefix, heads = r.builder, f"blk.{layer}", max(r.config.num_heads)
    head_dim, kernel = r.config.recurrent.require("kda.head_dim", "ssm.conv_kernel")
    inner = heads * head_dim
    q, k, v = (
        convolved(
            r,
            r.linear(x, f"{prefix}.attn_{part}", inner),
            f"{prefix}.ssm_conv1d_{part}",
            kernel,
            flat=False,
        )
        for part in "qkv"
    )
    steps, rates = _decays(r, prefix, _low_rank(r, x, f"{prefix}.ssm_f", head_dim, inner), heads)
    y = b.delta_rule(
        _unit(r, q, heads, head_dim**-0.5),
        _unit(r, k, heads),
        v,
        steps,
        r.linear(x, f"{prefix}.ssm_beta", heads),
        rates,
        key_heads=heads,
    )
    y = b.rms_norm(
        y, r.weights.vector(f"{prefix}.ssm_norm.weight", head_dim), r.config.norm_eps, heads
    )
    if r.has(f"{prefix}.attn_gate"):
        gate = r.linear(x, f"{prefix}.attn_gate", inner)
    else:
        gate = _low_rank(r, x, f"{prefix}.ssm_g", head_dim, inner)
    return r.linear(b.gated(gate, y, "sigmoid"), f"{prefix}.attn_output", r.config.hidden_size)


def _low_rank(r: Recorder, x: Value, name: str, rank: int, width: int) -> Value:
    """By two matrices, or by one where the file has no second."""
    if not r.offers(f"{name}_b"):
        return r.linear(x, f"{name}_a", width)
    return r.linear(r.linear(x, f"{name}_a", rank), f"{name}_b", width)


def _decays(r: Recorder, prefix: str, x: Value, heads: int) -> tuple[Value, Weight]:
    """What delta_rule takes as dt and a: states keep exp(a softplus(x)), or, where the file has a
    lower bound of logarithms, exp(bound sigmoid(a x)). Source: Ling Team 2026 (Ling 3).
    """
    bias, b = r.weights.vector(f"{prefix}.ssm_dt.bias", x.width), r.builder
    a = r.weights.matrix_float32(f"{prefix}.ssm_a", heads, 1)
    bound = r.config.recurrent.least_log_decay
    if bound is None:
        return b.softplus(x, bias), a
    factors = np.repeat(a.data.view(np.float32)[:, 0], x.width // heads)
    inner = b.multiply_columns(b.add_columns(x, bias), vector(f"{a.name} by column", factors))
    rates = float_matrix("kda.gate_lower_bound", np.full((heads, 1), bound, np.float32))
    return b.activate(inner, "sigmoid"), rates


def _projections(
    r: Recorder, x: Value, prefix: str, key_heads: int, key_dim: int, value_dim: int
) -> Iterator[Value]:
    """q, k, v and the gate of v; value_dim: of all heads that share a key head.

    Early files hold them in one matrix, key head by key head, as Hugging Face does.
    """
    widths = key_dim, key_dim, value_dim, value_dim
    if r.has(f"{prefix}.attn_qkv") or not _is_mixed(r, prefix):
        whole = [key_heads * width for width in widths]
        yield from r.fused_linear(x, f"{prefix}.attn_qkv", whole[:3])
        yield r.linear(x, f"{prefix}.attn_gate", whole[3])
        return
    mixed, first = r.linear(x, f"{prefix}.ssm_in", key_heads * sum(widths)), 0
    for width in widths:
        yield r.builder.columns(mixed, first, width, key_heads)
        first += width


def _convolved(r: Recorder, parts: list[Value], name: str, kernel: int) -> Iterator[Value]:
    """q, k and v along the sequence; their kernels lie in one matrix."""
    channels, first = sum(part.width for part in parts), 0
    weight = r.weights.matrix_float32(name, channels, kernel)
    for part in parts:
        yield r.builder.short_convolution(part, rows_of(weight, first, part.width), silu=True)
        first += part.width


def _rates(r: Recorder, x: Value, prefix: str, key_heads: int, shared: int) -> tuple[Value, Value]:
    """How much each head takes in and how much it forgets, before their nonlinearities."""
    heads = key_heads * shared
    if not _is_mixed(r, prefix):
        return (
            r.linear(x, f"{prefix}.ssm_beta", heads),
            r.linear(x, f"{prefix}.ssm_alpha", heads),
        )
    both, columns = r.linear(x, f"{prefix}.ssm_ba", 2 * heads), r.builder.columns
    return columns(both, 0, shared, key_heads), columns(both, shared, shared, key_heads)


def _is_mixed(r: Recorder, prefix: str) -> bool:
    """Whether matrices hold several things key head by key head."""
    return r.has(f"{prefix}.ssm_in") or r.has(f"{prefix}.ssm_ba")


def _unit(r: Recorder, x: Value, heads: int, factor: float = 1.0) -> Value:
    """Each head's part divided by its length, times `factor`: a root mean square norm, scaled."""
    width = x.width // heads
    return r.builder.rms_norm(
        x, _constant(width, factor / math.sqrt(width)), r.config.norm_eps**2 / width, heads
    )


def _constant(width: int, value: float) -> Weight:
    return vector("constant", np.full(width, value, np.float32))
