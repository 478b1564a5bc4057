"""Lowerings of the mixture of experts."""

from collections.abc import Mapping

from edgellm.kernels.cpu.lower.common import (
    Lowering,
    address,
    bias_and_scale,
    by_rows,
    float_word,
    integer,
    number,
    output,
    product_kernel,
    product_operand,
    stride,
)
from edgellm.kernels.cpu.plan import BufferAddress, Plan
from edgellm.kernels.program import OpCall


def _moe_route(plan: Plan, call: OpCall) -> None:
    scores, out = call.inputs[0], output(call)
    bias = plan.vector(call.weights[0]) if call.weights else 0
    plan.emit(
        ("moe_route", str(call.attributes["gating"])),
        plan.of(scores), stride(scores), plan.new(out), stride(out), scores.width,
        integer(call, "top_k"), bias, integer(call, "normalize"),
        float_word(number(call, "factor")), integer(call, "groups"),
        integer(call, "groups_used"), integer(call, "group_best"),
    )  # fmt: skip


def _moe_matmul(plan: Plan, call: OpCall) -> None:
    (x, routing), weight, out = call.inputs, call.weights[0], output(call)
    operand, experts = product_operand(plan, x, weight), integer(call, "experts")
    top_k, row_bytes = routing.width // 2, weight.data.strides[0]
    plan.emit(
        product_kernel("moe_matmul", weight),
        BufferAddress(operand), operand.row_bytes, x.width, plan.new(out), stride(out),
        address(weight) + integer(call, "first") * row_bytes, row_bytes,
        out.width // top_k, weight.columns, experts,
        *bias_and_scale(plan, call), plan.of(routing), stride(routing), top_k,
        weight.rows // experts * row_bytes,
    )  # fmt: skip


def _moe_combine(plan: Plan, call: OpCall) -> None:
    (x, routing), out = call.inputs, output(call)
    plan.emit(
        ("moe_combine",),
        plan.of(x), stride(x), plan.new(out), stride(out), out.width,
        plan.of(routing), stride(routing), routing.width // 2,
    )  # fmt: skip


def _moe_gate(plan: Plan, call: OpCall) -> None:
    (x, gate), out = call.inputs, output(call)
    plan.emit(
        ("moe_gate",),
        plan.of(x), stride(x), plan.new(out), plan.of(gate), stride(gate), partition=by_rows(x),
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "moe_route": _moe_route,
    "moe_matmul": _moe_matmul,
    "moe_combine": _moe_combine,
    "moe_gate": _moe_gate,
}
