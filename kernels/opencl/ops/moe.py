"""Mixtures of experts: routing, products with chosen matrices, the weighted sum."""

from collections.abc import Mapping

import numpy as np

from edgellm.kernels.opencl.ops.common import output, real, vector, whole
from edgellm.kernels.opencl.ops.products import expert_products
from edgellm.kernels.opencl.plan import STEP, Choice, Grid, Lowering, Plan
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.program import OpCall

# As source/moe.cl numbers them.
_GATINGS = {"softmax": 0, "softmax_selected": 1, "sigmoid": 2}


def _moe_route(plan: Plan, call: OpCall) -> None:
    scores, out = call.inputs[0], output(call)
    room = plan.new(out)
    key = KernelKey("moe", "moe_route", definitions=(("EXPERTS", scores.width),))
    group = plan.variant.group
    plan.emit(
        [Choice(1, key, Grid(scores.rows, lambda rows: (rows * group,), (group,)))],
        plan.of(scores), vector(plan, call), room, whole(call, "top_k"),
        np.int32(_GATINGS[str(call.attributes["gating"])]), whole(call, "groups"),
        whole(call, "groups_used"), whole(call, "group_best"), whole(call, "normalize"),
        real(call, "factor"), writes=[room],
    )  # fmt: skip


def _moe_matmul(plan: Plan, call: OpCall) -> None:
    routing, experts = call.inputs[1], int(call.attributes["experts"])
    expert_products(plan, call, matrices=experts, ranks=routing.width // 2, routing=routing)


def _moe_combine(plan: Plan, call: OpCall) -> None:
    (x, routing), out = call.inputs, output(call)
    room = plan.new(out)
    plan.by_items(
        KernelKey("moe", "moe_combine", definitions=(("EXPERTS", 1),)), out.rows, out.width,
        STEP, plan.of(x), plan.of(routing), room, np.int32(out.width),
        np.int32(routing.width // 2), writes=[room],
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "moe_route": _moe_route,
    "moe_matmul": _moe_matmul,
    "moe_combine": _moe_combine,
}
