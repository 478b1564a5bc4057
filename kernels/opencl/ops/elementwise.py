"""Embedding, norms, products, and ops on each number alone."""

from collections.abc import Callable, Mapping

import numpy as np

from edgellm.kernels.formats import by_name
from edgellm.kernels.opencl.ops.common import bias_and_scale, output, real, vector, whole
from edgellm.kernels.opencl.plan import (
    STEP,
    Choice,
    Grid,
    IndexArray,
    Lowering,
    Plan,
    Room,
    Size,
    count_word,
)
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.program import OpCall, Value, Weight


def stored_type(weight: Weight) -> int:
    """The type that a matrix has on the device."""
    return by_name("F32").type_id if weight.format.name == "F64" else weight.type_id


def operand(plan: Plan, x: Value, weight: Weight) -> Room:
    """What a product with `weight` reads: int8 records, or the float rows themselves."""
    return plan.of(x) if weight.format.unpack is None else plan.records(x)


def _embed(plan: Plan, call: OpCall) -> None:
    table, out = call.weights[0], output(call)
    fmt = table.format
    key = KernelKey("embed", "embed", stored_type(table), vector=1)
    room = plan.new(out)
    plan.by_items(
        key, out, out.width if fmt.unpack is None else out.width // 32,
        STEP, IndexArray("input_ids"), plan.weights.matrix(table), room, np.int32(out.width),
        real(call, "scale"), writes=[room],
    )  # fmt: skip


def _rms_norm(plan: Plan, call: OpCall) -> None:
    x, out = call.inputs[0], output(call)
    heads, group = int(call.attributes["heads"]), plan.variant.group
    room = plan.new(out)
    grid = Grid(x.rows, lambda rows: (rows * heads * group,), (group,))
    plan.emit(
        [Choice(1, KernelKey("norm", "rms_norm"), grid)],
        STEP, plan.of(x), vector(plan, call), room, np.int32(x.width // heads), real(call, "eps"),
        np.int32(call.weights[0].rows if call.weights else 1), writes=[room],
    )  # fmt: skip


def _matmul(plan: Plan, call: OpCall) -> None:
    x, weight, out = call.inputs[0], call.weights[0], output(call)
    variant, type_id = plan.variant, stored_type(weight)
    groups = -(-weight.rows // variant.strip_rows)
    local = variant.lanes, variant.slices, 1

    def choice(tokens: int) -> Choice:
        def sizes(rows: int) -> Size:
            return groups * local[0], local[1], -(-rows // tokens)

        key = KernelKey("matmul", "matmul", type_id, (("TOKENS", tokens),))
        return Choice(tokens if tokens == 1 else tokens // 2, key, Grid(x.rows, sizes, local))

    bias, scale = bias_and_scale(plan, call)
    source = operand(plan, x, weight)
    room = plan.new(out)
    plan.emit(
        [choice(tokens) for tokens in variant.tokens],
        STEP, source, plan.weights.matrix(weight), bias, scale, room, count_word(x),
        np.int32(weight.rows), np.int32(weight.columns), writes=[room],
    )  # fmt: skip


def _simple(function: str, *attributes: str) -> Callable[[Plan, OpCall], None]:
    """An op of rows.cl that is given its inputs, its output and some numbers."""

    def lower(plan: Plan, call: OpCall) -> None:
        x, out = call.inputs[0], output(call)
        inputs = [plan.of(value) for value in call.inputs]
        room = plan.new(out)
        name = function.format(**call.attributes)
        numbers = [real(call, attribute) for attribute in attributes]
        plan.by_items(
            KernelKey("rows", name), x, x.width,
            STEP, *inputs, room, count_word(x), np.int32(x.width), *numbers, writes=[room],
        )  # fmt: skip

    return lower


def _softplus(plan: Plan, call: OpCall) -> None:
    x, out = call.inputs[0], output(call)
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "softplus"), x, x.width,
        STEP, plan.of(x), vector(plan, call), room, count_word(x), np.int32(x.width),
        writes=[room],
    )  # fmt: skip


def _columns(plan: Plan, call: OpCall) -> None:
    x, out, parts = call.inputs[0], output(call), int(call.attributes["parts"])
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "columns"), x, out.width,
        STEP, plan.of(x), room, count_word(x), np.int32(x.width // parts), whole(call, "first"),
        np.int32(parts), np.int32(out.width // parts), writes=[room],
    )  # fmt: skip


def _select_outputs(plan: Plan, call: OpCall) -> None:
    x, out = call.inputs[0], output(call)
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "select_outputs"), out, out.width,
        STEP, IndexArray("rows"), plan.of(x), room, count_word(out), np.int32(out.width),
        writes=[room],
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "embed": _embed,
    "rms_norm": _rms_norm,
    "matmul": _matmul,
    "add": _simple("add"),
    "multiply": _simple("multiply", "factor"),
    "softcap": _simple("softcap", "cap"),
    "softplus": _softplus,
    "columns": _columns,
    "gated": _simple("gated_{activation}", "alpha", "limit"),
    "select_outputs": _select_outputs,
}
