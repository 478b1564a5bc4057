"""Lowerings of ops on the equal parts of a row."""

from collections.abc import Mapping

from edgellm.kernels.cpu.lower.common import (
    Lowering,
    address,
    by_rows,
    count_word,
    integer,
    output,
    product_kernel,
    product_operand,
    stride,
)
from edgellm.kernels.cpu.plan import BufferAddress, Plan
from edgellm.kernels.program import OpCall


def _concat_heads(plan: Plan, call: OpCall) -> None:
    (a, b), out, heads = call.inputs, output(call), integer(call, "heads")
    plan.emit(
        ("concat_heads",),
        count_word(a), plan.of(a), stride(a), a.width // heads,
        plan.of(b), stride(b), b.width // heads, plan.new(out), stride(out), heads,
        partition=by_rows(a),
    )  # fmt: skip


def _head_matmul(plan: Plan, call: OpCall) -> None:
    """The kernel of experts, of which head h takes number h."""
    x, weight, out = call.inputs[0], call.weights[0], output(call)
    operand, heads = product_operand(plan, x, weight), integer(call, "heads")
    row_bytes = weight.data.strides[0]
    plan.emit(
        product_kernel("moe_matmul", weight),
        BufferAddress(operand), operand.row_bytes, x.width, plan.new(out), stride(out),
        address(weight) + integer(call, "first") * row_bytes, row_bytes,
        out.width // heads, weight.columns, heads, 0, 0, 0, 0, heads,
        weight.rows // heads * row_bytes,
    )  # fmt: skip


def _scale_heads(plan: Plan, call: OpCall) -> None:
    (x, factors), out = call.inputs, output(call)
    plan.emit(
        ("scale_heads",),
        count_word(x), plan.of(x), stride(x), x.width // factors.width, factors.width,
        plan.of(factors), stride(factors), plan.new(out), partition=by_rows(x, factors.width),
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "concat_heads": _concat_heads,
    "head_matmul": _head_matmul,
    "scale_heads": _scale_heads,
}
