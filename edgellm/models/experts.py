"""The feed-forward half of a layer with experts: the chosen few of many, and those all share."""

import math
from functools import partial, reduce

from edgellm.errors import GGUFError
from edgellm.kernels.ops import ExpertGroups
from edgellm.kernels.program import Value, Weight
from edgellm.models.expert_config import ExpertConfig
from edgellm.models.feed_forward import activated, gate_and_up, gated, is_fused, mlp
from edgellm.models.recorder import Recorder
from edgellm.models.weights import columns_of


def expert_mlp(r: Recorder, layer: int, x: Value) -> Value:
    """A router weighs a few of many gated networks per token; a shared one may be added.

    x (T, hidden_size), normed, and so the result. Some layers have a network without a router
    beside it. Sources: Shazeer et al. 2017; Dai et al. 2024 (shared experts); Grok (xAI 2024).
    """
    prefix, row, b = f"blk.{layer}", r.architecture, r.builder
    read = r.layer_input if row.early_router else x
    assert read is not None
    out = routed(r, layer, x, r.linear(read, f"{prefix}.ffn_gate_inp", config(r, layer).count))
    if r.offers(f"{prefix}.ffn_down_shexp"):
        out = b.add(out, _shared(r, layer, x))
        out = out if row.shared_factor == 1 else b.multiply(out, row.shared_factor)
    if row.mlp_beside_experts and r.offers(f"{prefix}.ffn_up"):
        out = b.multiply(b.add(mlp(r, layer, x), out), math.sqrt(0.5))
    return out


def config(r: Recorder, layer: int) -> ExpertConfig:
    """GGUFError where the file gives none."""
    if r.config.experts is None:
        raise GGUFError(
            f"tensor blk.{layer}.ffn_gate_inp.weight routes to experts, "
            f"and {r.config.architecture}.expert_count says there are none"
        )
    return r.config.experts


def routed(r: Recorder, layer: int, x: Value, scores: Value) -> Value:
    """What the chosen experts make of x, by the scores (T, experts) of all of them."""
    experts = config(r, layer)
    routing = route(r, experts, layer, scores)
    return mixture(r, layer, x, routing, "exps", experts.count, experts.intermediate_size[layer])


def mixture(
    r: Recorder, layer: int, x: Value, routing: Value, kind: str, count: int, width: int
) -> Value:
    """What those of `count` experts make of x that it is routed to. kind: the end of their tensors'
    names. width: of the numbers in between.
    """
    prefix, row, used = f"blk.{layer}.ffn", r.architecture, routing.width // 2
    product = partial(_product, r, count, routing)
    weights = r.builder.columns(routing, used, used) if row.weigh_inputs else None

    def read(name: str, rows: int, part: slice | None = None) -> Value:
        y = product(x, f"{prefix}_{name}_{kind}", rows, x.width, part)
        return y if weights is None else r.builder.scale_heads(y, weights)

    if not row.gated:
        hidden = activated(r, read("up", width))
    else:
        if r.offers(f"{prefix}_gate_up_{kind}"):
            gate = read("gate_up", 2 * width, slice(0, width))
            up = read("gate_up", 2 * width, slice(width, 2 * width))
        else:
            gate, up = read("gate", width), read("up", width)
        hidden = gated(r, gate, up, config(r, layer).limits[layer])
    down = product(hidden, f"{prefix}_down_{kind}", x.width, width)
    if weights is None:
        return r.builder.moe_combine(down, routing)
    parts = [r.builder.columns(down, rank * x.width, x.width) for rank in range(used)]
    return reduce(r.builder.add, parts)


def route(r: Recorder, experts: ExpertConfig, layer: int, scores: Value) -> Value:
    """Which experts, and by how much, by the scores (T, experts) of all of them.

    A group is as good as its two best experts, or in DeepSeek's second version, which has no
    selection bias, as its best. Sources: DeepSeek-AI 2024, V2 and V3.
    """
    name = f"blk.{layer}.exp_probs_b"
    bias = r.weights.optional_vector(f"{name}.bias", experts.count)
    if bias is None:  # the name has no suffix in some files
        bias = r.weights.optional_vector(f"{name}.weight", experts.count)
    best = r.architecture.group_best if bias is None else 2
    if experts.router_softcap is not None:
        scores = r.builder.softcap(scores, experts.router_softcap)
    return r.builder.moe_route(
        scores,
        _used(r, experts, layer),
        gating=experts.gating,
        normalize=experts.normalize,
        factor=experts.factor,
        selection_bias=bias,
        groups=ExpertGroups(experts.groups, experts.groups_used, best),
    )


def _used(r: Recorder, experts: ExpertConfig, layer: int) -> int:
    if not experts.used[layer]:
        key = f"{r.config.architecture}.expert_used_count"
        raise GGUFError(f"{key} is 0 for layer {layer}, which has experts: expected 1 or more")
    return experts.used[layer]


def _shared(r: Recorder, layer: int, x: Value) -> Value:
    """The network that every token goes through, times a gate where the file has one."""
    experts, prefix = config(r, layer), f"blk.{layer}"
    width = experts.shared_intermediate_size[layer]
    if not r.has(f"{prefix}.ffn_gate_shexp") and is_fused(r, f"{prefix}.ffn_up_shexp", width):
        gate, up = r.fused_linear(x, f"{prefix}.ffn_up_shexp", (width, width))
        hidden = gated(r, gate, up)
    elif r.architecture.gated:
        limit = experts.shared_limits[layer]
        hidden = gate_and_up(r, x, f"{prefix}.ffn", "_shexp", width, limit=limit)
    else:
        hidden = activated(r, r.linear(x, f"{prefix}.ffn_up_shexp", width))
    out = r.linear(hidden, f"{prefix}.ffn_down_shexp", x.width)
    weighing = f"{prefix}.ffn_gate_inp_shexp"
    if not r.offers(weighing):
        return out
    return r.builder.scale_heads(out, r.builder.activate(r.linear(x, weighing, 1), "sigmoid"))


def _product(
    r: Recorder,
    count: int,
    routing: Value,
    x: Value,
    name: str,
    rows: int,
    columns: int,
    part: slice | None = None,
) -> Value:
    """Of the tensor `name`, (rows, columns) for each of `count` experts, or of `part` of the rows,
    each row of x with the experts it is routed to.
    """
    bias: Weight | None = None
    if r.weights.offers(f"{name}.bias"):
        bias = r.weights.matrix_float32(f"{name}.bias", count, rows)
        bias = bias if part is None else columns_of(bias, part)
    weight = r.weights.matrix(f"{name}.weight", rows, columns, matrices=count)
    scale = r.weights.optional_vector(f"{name}.scale", count)
    y = r.builder.moe_matmul(x, routing, weight, experts=count, part=part, bias=bias, scale=scale)
    shape = count, rows, columns
    return r.adapting.expert_product(y, x, routing, weight.name, shape, part)
