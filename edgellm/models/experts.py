"""The feed-forward half of a layer with experts: the chosen few of many, and those all share."""

from functools import partial

from edgellm.errors import GGUFError
from edgellm.kernels.ops import ExpertGroups
from edgellm.kernels.program import Value, Weight
from edgellm.models.expert_config import ExpertConfig
from edgellm.models.feed_forward import activated, gate_and_up, gated
from edgellm.models.recorder import Recorder
from edgellm.models.weights import columns_of


def expert_mlp(r: Recorder, layer: int, x: Value) -> Value:
    """A router weighs a few of many gated networks per token; a shared one may be added.

    x (T, hidden_size), normed, and so the result. Sources: Shazeer et al. 2017; Dai et al. 2024
    (shared experts).
    """
    experts, prefix = r.config.experts, f"blk.{layer}"
    if experts is None:
        raise GGUFError(
            f"tensor {prefix}.ffn_gate_inp.weight routes to experts, "
            f"and {r.config.architecture}.expert_count says there are none"
        )
    routing = _route(r, experts, layer, x)
    product = partial(_product, r, experts.count, routing)
    width = experts.intermediate_size[layer]
    if not r.architecture.gated:
        hidden = activated(r, product(x, f"{prefix}.ffn_up_exps", width, x.width))
    elif r.offers(f"{prefix}.ffn_gate_up_exps"):
        name = f"{prefix}.ffn_gate_up_exps"
        gate = product(x, name, 2 * width, x.width, slice(0, width))
        hidden = gated(r, gate, product(x, name, 2 * width, x.width, slice(width, 2 * width)))
    else:
        gate = product(x, f"{prefix}.ffn_gate_exps", width, x.width)
        hidden = gated(r, gate, product(x, f"{prefix}.ffn_up_exps", width, x.width))
    down = product(hidden, f"{prefix}.ffn_down_exps", x.width, width)
    out = r.builder.moe_combine(down, routing)
    if not r.offers(f"{prefix}.ffn_down_shexp"):
        return out
    return r.builder.add(out, _shared(r, experts, layer, x))


def _route(r: Recorder, experts: ExpertConfig, layer: int, x: Value) -> Value:
    """With a selection bias a group is as good as its two best experts, without as its best.

    Sources: DeepSeek-AI 2024, V2 and V3.
    """
    bias = r.weights.optional_vector(f"blk.{layer}.exp_probs_b.bias", experts.count)
    best = 1 if bias is None else 2
    return r.builder.moe_route(
        r.linear(x, f"blk.{layer}.ffn_gate_inp", experts.count),
        experts.used,
        gating=experts.gating,
        normalize=experts.normalize,
        factor=experts.factor,
        selection_bias=bias,
        groups=ExpertGroups(experts.groups, experts.groups_used, best),
    )


def _shared(r: Recorder, experts: ExpertConfig, layer: int, x: Value) -> Value:
    """The network that every token goes through, times a gate where the file has one."""
    prefix = f"blk.{layer}"
    width = experts.shared_intermediate_size[layer]
    if r.architecture.gated:
        hidden = gate_and_up(r, x, f"{prefix}.ffn", "_shexp", width)
    else:
        hidden = activated(r, r.linear(x, f"{prefix}.ffn_up_shexp", width))
    out = r.linear(hidden, f"{prefix}.ffn_down_shexp", x.width)
    gate = f"{prefix}.ffn_gate_inp_shexp"
    return r.builder.moe_gate(out, r.linear(x, gate, 1)) if r.offers(gate) else out


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
