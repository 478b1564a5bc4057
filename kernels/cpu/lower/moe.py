"""Lowerings of the mixture of experts."""

import ctypes
import mmap
from collections.abc import Mapping

from edgellm.kernels.cpu.lower.common import (
    Lowering,
    address,
    bias_and_scale,
    float_word,
    integer,
    number,
    output,
    product_kernel,
    product_operand,
    stride,
)
from edgellm.kernels.cpu.plan import BufferAddress, Plan
from edgellm.kernels.program import OpCall, Value, Weight


def madvise_address() -> int:
    """Where the system's function is; 0 where it has none."""
    if not hasattr(mmap, "MADV_WILLNEED"):
        return 0
    try:
        function = ctypes.CDLL(None).madvise
    except (AttributeError, TypeError, OSError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


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
    if plan.experts_on_disk and madvise_address():
        _fetch_experts(plan, out)


def _expert_weights(plan: Plan, routing: Value) -> list[tuple[Weight, int]]:
    """The tensors that are multiplied by this routing, and how many experts they have."""
    found = {
        id(reader.weights[0]): (reader.weights[0], integer(reader, "experts"))
        for reader in plan.readers(routing)
        if reader.op == "moe_matmul"
    }
    return list(found.values())


def _fetch_experts(plan: Plan, routing: Value) -> None:
    """Asks the system for the weights of chosen experts, all of a layer's before the first use."""
    for weight, experts in _expert_weights(plan, routing):
        plan.emit(
            ("fetch_experts",),
            plan.of(routing), stride(routing), routing.width // 2, address(weight),
            weight.rows // experts * weight.data.strides[0], mmap.PAGESIZE, madvise_address(),
            mmap.MADV_WILLNEED,
        )  # fmt: skip


def _leave_experts(plan: Plan, routing: Value) -> None:
    """Gives back what a step took that went through most experts of a layer."""
    for weight, experts in _expert_weights(plan, routing):
        plan.emit(
            ("leave_experts",),
            routing.width // 2, experts, address(weight), weight.data.nbytes, mmap.PAGESIZE,
            madvise_address(), mmap.MADV_DONTNEED,
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
    if plan.experts_on_disk and madvise_address():
        _leave_experts(plan, routing)


LOWERINGS: Mapping[str, Lowering] = {
    "moe_route": _moe_route,
    "moe_matmul": _moe_matmul,
    "moe_combine": _moe_combine,
}
