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
from edgellm.kernels.program import OpCall, Value, Weight


def _lookup(row_numbers: int) -> Lowering:
    """row_numbers: the step word that says which rows of the table."""

    def lower(plan: Plan, call: OpCall) -> None:
        table, out = call.weights[0], output(call)
        source = address(table), table.data.strides[0], table.columns
        factor = float_word(number(call, "scale"))
        words = *source, plan.new(out), stride(out), factor, row_numbers
        plan.emit(("embed", str(table.type_id)), *words, partition=by_rows(out))

    return lower


def _norm(plan: Plan, call: OpCall, kind: str, weight: Weight | None, bias: Weight | None) -> None:
    """Also does the addition that was left to it, and the int8 form of its result."""
    x, out, heads = call.inputs[0], output(call), integer(call, "heads")
    weight_step = 4 * weight.columns if weight is not None and weight.rows > 1 else 0
    a, b, total = (plan.of(x), 0, 0) if x not in plan.sums else _pending_sum(plan, x)
    is_int8 = heads == 1 and plan.wants_int8(out)
    plan.emit(
        (call.op, kind),
        count_word(x), a, b, total, plan.new(out), stride(x),
        plan.vector(weight), weight_step, x.width // heads, heads, float_word(number(call, "eps")),
        plan.new_int8(out) if is_int8 else 0, layout.activation_row_bytes(out.width),
        plan.vector(bias),
        partition=by_rows(x, heads),
    )  # fmt: skip


def _rms_norm(plan: Plan, call: OpCall) -> None:
    weight = call.weights[0] if call.weights else None
    _norm(plan, call, "weighted" if weight else "plain", weight, None)


def _layer_norm(plan: Plan, call: OpCall) -> None:
    rest = iter(call.weights)
    weight = next(rest) if call.attributes["weight"] else None
    bias = next(rest) if call.attributes["bias"] else None
    kind = ("weighted" if weight else "plain") + ("_biased" if bias else "")
    _norm(plan, call, kind, weight, bias)


def _gaussian_top_k(plan: Plan, call: OpCall) -> None:
    x, deviations = call.inputs[0], float_word(number(call, "deviations"))
    words = count_word(x), plan.of(x), plan.new(output(call)), stride(x), x.width
    plan.emit(("gaussian_top_k",), *words, deviations, partition=by_rows(x))


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
    is_norm = first is not None and first.op in ("rms_norm", "layer_norm")
    if first is not None and is_norm and integer(first, "heads") == 1:
        plan.sums[out] = a, b
        return
    plan.emit(("add",), count_word(a), plan.of(a), plan.of(b), plan.new(out), stride(a))


def _remainder(plan: Plan, call: OpCall) -> None:
    x = call.inputs[0]
    words = count_word(x), plan.of(x), stride(x), plan.new(output(call)), x.width
    plan.emit(("remainder",), *words, partition=by_rows(x))


def _matmul(plan: Plan, call: OpCall) -> None:
    x, weight, out = call.inputs[0], call.weights[0], output(call)
    operand = product_operand(plan, x, weight)
    plan.emit(
        product_kernel("matmul", weight),
        count_word(x), BufferAddress(operand), operand.row_bytes, plan.new(out), stride(out),
        address(weight), weight.data.strides[0], weight.rows, weight.columns,
        *bias_and_scale(plan, call), weight=weight,
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


def _activation(plan: Plan, call: OpCall, kind: tuple[str, ...], b: Word, *numbers: float) -> None:
    """Writes its result as float32, as int8, or both, as readers want it."""
    a, out = call.inputs[0], output(call)
    plan.emit(
        (call.op, *kind),
        count_word(a), plan.of(a), b,
        plan.new(out) if plan.wants_float(out) else 0, stride(a),
        *(float_word(value) for value in numbers),
        plan.new_int8(out) if plan.wants_int8(out) else 0,
        layout.activation_row_bytes(out.width), out.width,
    )  # fmt: skip


def _gated(plan: Plan, call: OpCall) -> None:
    kind, up = str(call.attributes["activation"]), plan.of(call.inputs[1])
    _activation(plan, call, (kind,), up, number(call, "alpha"), number(call, "limit"))


def _activate(plan: Plan, call: OpCall) -> None:
    _activation(plan, call, (str(call.attributes["activation"]),), 0, 0.0, 0.0)


def _xielu(plan: Plan, call: OpCall) -> None:
    beta = float_word(number(call, "beta"))
    _activation(plan, call, (), beta, number(call, "alpha_p"), number(call, "alpha_n"))


def _by_columns(plan: Plan, call: OpCall) -> None:
    x, numbers = call.inputs[0], plan.vector(call.weights[0])
    words = count_word(x), plan.of(x), plan.new(output(call)), stride(x)
    plan.emit((call.op,), *words, numbers)


def _select_outputs(plan: Plan, call: OpCall) -> None:
    x = call.inputs[0]
    plan.emit(("select_outputs",), plan.of(x), plan.new(output(call)), stride(x))


LOWERINGS: Mapping[str, Lowering] = {
    "embed": _lookup(layout.INPUT_IDS),
    "embed_positions": _lookup(layout.POSITIONS),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "gaussian_top_k": _gaussian_top_k,
    "columns": _columns,
    "remainder": _remainder,
    "matmul": _matmul,
    "add": _add,
    "multiply": _unary("factor"),
    "softplus": _softplus,
    "softcap": _unary("cap"),
    "multiply_columns": _by_columns,
    "add_columns": _by_columns,
    "clamp": _unary("limit"),
    "gated": _gated,
    "activate": _activate,
    "xielu": _xielu,
    "select_outputs": _select_outputs,
}
