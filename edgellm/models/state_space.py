"""State space models as the mixer of a layer. x (T, hidden_size), normed, and so the results."""

from edgellm.kernels.program import Value
from edgellm.models.attention import grouped_query_attention
from edgellm.models.convolution import convolved
from edgellm.models.recorder import Recorder


def mamba(r: Recorder, layer: int, x: Value) -> Value:
    """A state for each channel, whose step, input and output the channel's own input decides.

    Sources: Gu and Dao 2023; Lieber et al. 2024 (norms of dt, b and c, Jamba).
    """
    b, prefix = r.builder, f"blk.{layer}"
    if r.has(f"{prefix}.ssm_a") and len(r.weights.shape(f"{prefix}.ssm_a")) == 1:
        return _mamba_of_heads(r, layer, x)
    inner, kernel, size, rank = r.config.recurrent.require(
        "ssm.inner_size", "ssm.conv_kernel", "ssm.state_size", "ssm.time_step_rank"
    )
    hidden, gate = r.fused_linear(x, f"{prefix}.ssm_in", (inner, inner))
    hidden = convolved(r, hidden, f"{prefix}.ssm_conv1d", kernel)
    parts = r.fused_linear(hidden, f"{prefix}.ssm_x", (rank, size, size))
    dt, write, read = (
        _step_norm(r, part, f"{prefix}.ssm_{name}_norm")
        for name, part in zip(("dt", "b", "c"), parts, strict=True)
    )
    step = r.weights.matrix(f"{prefix}.ssm_dt.weight", inner, rank)
    y = b.selective_scan(
        hidden,
        b.softplus(b.matmul(dt, step, r.weights.vector(f"{prefix}.ssm_dt.bias", inner))),
        write,
        read,
        r.weights.matrix_float32(f"{prefix}.ssm_a", inner, size),
        r.weights.vector(f"{prefix}.ssm_d", inner),
    )
    return r.linear(b.gated(gate, y, "silu"), f"{prefix}.ssm_out", r.config.hidden_size)


def _mamba_of_heads(r: Recorder, layer: int, x: Value) -> Value:
    """A step and a decay for each head, and projections in the order gate, input and b, c, dt.

    Source: Preferred Networks 2025 (PLaMo 2).
    """
    b, prefix, recurrent = r.builder, f"blk.{layer}", r.config.recurrent
    inner, kernel, size, heads = recurrent.require(
        "ssm.inner_size", "ssm.conv_kernel", "ssm.state_size", "ssm.time_step_rank"
    )
    head_dim = recurrent.divided("ssm.inner_size", "ssm.time_step_rank")
    both = r.linear(x, f"{prefix}.ssm_in", 2 * inner)
    gate, hidden = (b.columns(both, first, head_dim, heads) for first in (0, head_dim))
    hidden = convolved(r, hidden, f"{prefix}.ssm_conv1d", kernel)
    rank = max(64, r.config.hidden_size // 16)  # no key says it
    parts = r.fused_linear(hidden, f"{prefix}.ssm_x", (size, size, rank))
    write, read, dt = (
        _step_norm(r, part, f"{prefix}.ssm_{name}_norm")
        for name, part in zip(("b", "c", "dt"), parts, strict=True)
    )
    step = r.weights.matrix(f"{prefix}.ssm_dt.weight", heads, rank)
    y = b.selective_scan(
        hidden,
        b.softplus(b.matmul(dt, step, r.weights.vector(f"{prefix}.ssm_dt.bias", heads))),
        write,
        read,
        r.weights.matrix_float32(f"{prefix}.ssm_a", heads, 1, shape=(heads,)),
        r.weights.vector(f"{prefix}.ssm_d", heads),
    )
    return r.linear(b.gated(gate, y, "silu"), f"{prefix}.ssm_out", r.config.hidden_size)


def _step_norm(r: Recorder, x: Value, name: str) -> Value:
    """The norm where the file has its weight, or says that there is one without."""
    weight = r.weights.optional_vector(f"{name}.weight", x.width)
    if weight is None and not r.config.recurrent.norms_steps:
        return x
    return r.builder.rms_norm(x, weight, r.config.norm_eps)


def mamba2(r: Recorder, layer: int, x: Value) -> Value:
    """Heads of channels that share a step, and groups of heads that share input and output.

    Source: Dao and Gu 2024.
    """
    b, prefix, recurrent = r.builder, f"blk.{layer}", r.config.recurrent
    inner, kernel, size, heads, groups = recurrent.require(
        "ssm.inner_size",
        "ssm.conv_kernel",
        "ssm.state_size",
        "ssm.time_step_rank",
        "ssm.group_count",
    )
    recurrent.divided("ssm.inner_size", "ssm.time_step_rank")
    recurrent.divided("ssm.time_step_rank", "ssm.group_count")
    shared = groups * size
    gate, mixed, dt = r.fused_linear(x, f"{prefix}.ssm_in", (inner, inner + 2 * shared, heads))
    mixed = convolved(r, mixed, f"{prefix}.ssm_conv1d", kernel)
    y = b.selective_scan(
        b.columns(mixed, 0, inner),
        b.softplus(dt, r.weights.vector(f"{prefix}.ssm_dt.bias", heads)),
        b.columns(mixed, inner, shared),
        b.columns(mixed, inner + shared, shared),
        r.weights.matrix_float32(f"{prefix}.ssm_a", heads, 1),
        r.weights.matrix_float32(f"{prefix}.ssm_d", heads, 1),
        groups=groups,
    )
    y = b.gated(gate, y, "silu")
    if r.offers(f"{prefix}.ssm_norm"):
        weight = r.weights.matrix_float32(f"{prefix}.ssm_norm.weight", groups, inner // groups)
        y = b.rms_norm(y, weight, r.config.norm_eps, groups)
    return r.linear(y, f"{prefix}.ssm_out", r.config.hidden_size)


def mamba2_beside_attention(r: Recorder, layer: int, x: Value) -> Value:
    """The sum of both where the layer has attention too. Source: Zuo et al. 2025 (Falcon-H1)."""
    y = mamba2(r, layer, x)
    if not r.has(f"blk.{layer}.attn_q"):
        return y
    return r.builder.add(grouped_query_attention(r, layer, x), y)
