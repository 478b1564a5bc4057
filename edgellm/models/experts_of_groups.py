"""The feed-forward half of a layer whose experts come in groups, each with a narrow one more, which
a token reads as often as it reads experts of the group. Source: Wu et al. 2025 (Grove MoE).
"""

import numpy as np

from edgellm.errors import GGUFError
from edgellm.kernels.program import Value
from edgellm.models.experts import config, mixture, route
from edgellm.models.recorder import Recorder, vector


def experts_of_groups(r: Recorder, layer: int, x: Value) -> Value:
    """x (T, hidden_size), normed, and so the result."""
    b, experts = r.builder, config(r, layer)
    size, width = experts.per_group, experts.group_expert_width or r.config.head_dim
    if experts.count % size:
        name = f"{r.config.architecture}.experts_per_group"
        raise GGUFError(f"{name} is {size}, expected a divisor of {experts.count} experts")
    scores = r.linear(x, f"blk.{layer}.ffn_gate_inp", experts.count)
    routing = route(r, experts, layer, scores)
    chosen = mixture(r, layer, x, routing, "exps", experts.count, experts.intermediate_size[layer])
    groups = _groups(r, routing, size)
    beside = mixture(r, layer, x, groups, "chexps", experts.count // size, width)
    return b.add(chosen, b.multiply(beside, experts.group_expert_factor))


def _groups(r: Recorder, routing: Value, size: int) -> Value:
    """The routing with numbers of groups for those of experts. What reads it drops fractions."""
    b, used = r.builder, routing.width // 2
    halves = vector("half an expert", np.full(used, 0.5 / size, np.float32))
    numbers = b.add_columns(b.multiply(b.columns(routing, 0, used), 1 / size), halves)
    return b.concat_heads(numbers, b.columns(routing, used, used), 1)
