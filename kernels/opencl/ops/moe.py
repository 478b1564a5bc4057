"""Mixtures of experts: routing, products with chosen matrices, the weighted sum."""

from collections.abc import Mapping

import numpy as np

from edgellm.kernels.opencl.ops.common import bias_and_scale, output, real, vector, whole
from edgellm.kernels.opencl.ops.elementwise import operand, stored_type
from edgellm.kernels.opencl.plan import STEP, Choice, Grid, Lowering, Plan, Size
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.program import OpCall

# As source/moe.cl numbers them.
_GATINGS = {"softmax": 0, "softmax_selected": 1, "sigmoid": 2}


def _moe_route(plan: Plan, call: OpCall) -> None:
    scores, out = call.inputs[0], output(call)
    room = plan.new(out)
    plan.by_items(
        KernelKey("moe", "moe_route"), scores, 1,
        STEP, plan.of(scores), vector(plan, call), room, np.int32(scores.width),
        whole(call, "top_k"), np.int32(_GATINGS[str(call.attributes["gating"])]),
        whole(call, "normalize"), real(call, "factor"), writes=[room],
    )  # fmt: skip


def _moe_matmul(plan: Plan, call: OpCall) -> None:
    (x, routing), weight, out = call.inputs, call.weights[0], output(call)
    variant, experts = plan.variant, int(call.attributes["experts"])
    rows, top_k = weight.rows // experts, routing.width // 2
    groups = -(-rows // variant.strip_rows)
    local = variant.lanes, variant.slices, 1

    def sizes(tokens: int) -> Size:
        return groups * local[0], top_k * local[1], tokens

    bias, scale = bias_and_scale(plan, call)
    source = operand(plan, x, weight)
    room = plan.new(out)
    key = KernelKey("matmul", "moe_matmul", stored_type(weight), (("TOKENS", 1),))
    plan.emit(
        [Choice(1, key, Grid(x.rows, sizes, local))],
        source, plan.of(routing), plan.weights.matrix(weight, experts), bias, scale, room,
        np.int32(rows), np.int32(weight.columns), np.int32(top_k),
        np.int32(x.width // weight.columns), writes=[room],
    )  # fmt: skip


def _moe_combine(plan: Plan, call: OpCall) -> None:
    (x, routing), out = call.inputs, output(call)
    room = plan.new(out)
    plan.by_items(
        KernelKey("moe", "moe_combine"), out, out.width,
        STEP, plan.of(x), plan.of(routing), room, np.int32(out.width),
        np.int32(routing.width // 2), writes=[room],
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "moe_route": _moe_route,
    "moe_matmul": _moe_matmul,
    "moe_combine": _moe_combine,
}
