"""Lowerings of ops on each row alone."""

from collections.abc import Callable, Mapping

from edgellm.kernels.cpu import layout
from edgellm.kernels.cpu.lower.common import (
    Lowering,
    address,
    bias_and_scale,
    by_rows,
    count_word,
    float_word,
    integer,
    number,
    output,
    product_kernel,
    product_operand,
    stride,
)
from edgellm.kernels.cpu.plan import BufferAddress, Plan, Word
from edgellm.kernels.program import OpCall, Value


def _embed(plan: Plan, call: OpCall) -> None:
    table, out = call.weights[0], output(call)
    source = address(table), table.data.strides[0], table.columns
    factor = float_word(number(call, "scale"))
    words = *source, plan.new(out), stride(out), factor
    plan.emit(("embed", str(table.type_id)), *words, partition=by_rows(out))


def _rms_norm(plan: Plan, call: OpCall) -> None:
    """Also does the addition that was left to it, and the int8 form of its result."""
    x, out, heads = call.inputs[0], output(call), integer(call, "heads")
    weight = call.weights[0] if call.weights else None
    weight_step = 4 * weight.columns if weight is not None and weight.rows > 1 else 0
    a, b, total = (plan.of(x), 0, 0) if x not in plan.sums else _pending_sum(plan, x)
    is_int8 = heads == 1 and plan.wants_int8(out)
    plan.emit(
        ("rms_norm", "weighted" if weight else "plain"),
        count_word(x), a, b, total, plan.new(out), stride(x),
        plan.vector(weight), weight_step, x.width // heads, heads, float_word(number(call, "eps")),
        plan.new_int8(out) if is_int8 else 0, layout.activation_row_bytes(out.width),
        partition=by_rows(x, heads),
    )  # fmt: skip


def _columns(plan: Plan, call: OpCall) -> None:
    x, out, parts = call.inputs[0], output(call), integer(call, "parts")
    plan.emit(
        ("columns",),
        count_word(x), plan.of(x), stride(x), plan.new(out), stride(out), parts, x.width // parts,
        integer(call, "first"), out.width // parts,
    )  # fmt: skip


def _pending_sum(plan: Plan, x: Value) -> tuple[Word, Word, Word]:
    """Both operands of an addition, and room for its result."""
    a, b = plan.sums.pop(x)
    return plan.of(a), plan.of(b), plan.new(x)


def _add(plan: Plan, call: OpCall) -> None:
    (a, b), out = call.inputs, output(call)
    first = next(iter(plan.readers(out)), None)
    if first is not None and first.op == "rms_norm" and integer(first, "heads") == 1:
        plan.sums[out] = a, b
        return
    plan.emit(("add",), count_word(a), plan.of(a), plan.of(b), plan.new(out), stride(a))


def _matmul(plan: Plan, call: OpCall) -> None:
    x, weight, out = call.inputs[0], call.weights[0], output(call)
    operand = product_operand(plan, x, weight)
    plan.emit(
        product_kernel("matmul", weight),
        count_word(x), BufferAddress(operand), operand.row_bytes, plan.new(out), stride(out),
        address(weight), weight.data.strides[0], weight.rows, weight.columns,
        *bias_and_scale(plan, call),
    )  # fmt: skip


def _unary(attribute: str) -> Callable[[Plan, OpCall], None]:
    def lower(plan: Plan, call: OpCall) -> None:
        x, factor = call.inputs[0], float_word(number(call, attribute))
        words = count_word(x), plan.of(x), plan.new(output(call)), stride(x)
        plan.emit((call.op,), *words, factor)

    return lower


def _softplus(plan: Plan, call: OpCall) -> None:
    x, bias = call.inputs[0], plan.vector(call.weights[0]) if call.weights else 0
    words = count_word(x), plan.of(x), plan.new(output(call)), stride(x)
    plan.emit(("softplus",), *words, bias)


def _gated(plan: Plan, call: OpCall) -> None:
    """Writes its result as float32, as int8, or both, as readers want it."""
    (gate, up), out = call.inputs, output(call)
    is_int8 = plan.wants_int8(out)
    plan.emit(
        ("gated", str(call.attributes["activation"])),
        count_word(gate), plan.of(gate), plan.of(up),
        plan.new(out) if plan.wants_float(out) else 0, stride(gate),
        float_word(number(call, "alpha")), float_word(number(call, "limit")),
        plan.new_int8(out) if is_int8 else 0, layout.activation_row_bytes(out.width), out.width,
    )  # fmt: skip


def _select_outputs(plan: Plan, call: OpCall) -> None:
    x = call.inputs[0]
    plan.emit(("select_outputs",), plan.of(x), plan.new(output(call)), stride(x))


LOWERINGS: Mapping[str, Lowering] = {
    "embed": _embed,
    "rms_norm": _rms_norm,
    "columns": _columns,
    "matmul": _matmul,
    "add": _add,
    "multiply": _unary("factor"),
    "softplus": _softplus,
    "softcap": _unary("cap"),
    "gated": _gated,
    "select_outputs": _select_outputs,
}
