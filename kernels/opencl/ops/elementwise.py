"""Embedding, norms, and ops on each number alone."""

from collections.abc import Callable, Mapping

import numpy as np

from edgellm.kernels.opencl.ops.common import output, real, vector, whole
from edgellm.kernels.opencl.ops.products import stored_type
from edgellm.kernels.opencl.plan import (
    STEP,
    Choice,
    Grid,
    IndexArray,
    Lowering,
    Plan,
    count_word,
)
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.program import OpCall


def _embed(plan: Plan, call: OpCall) -> None:
    table, out = call.weights[0], output(call)
    fmt = table.format
    key = KernelKey("embed", "embed", stored_type(table), vector=1)
    room = plan.new(out)
    plan.by_items(
        key, out.rows, out.width if fmt.unpack is None else out.width // 32,
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


def _simple(function: str, *attributes: str) -> Callable[[Plan, OpCall], None]:
    """An op of rows.cl that is given its inputs, its output and some numbers."""

    def lower(plan: Plan, call: OpCall) -> None:
        x, out = call.inputs[0], output(call)
        inputs = [plan.of(value) for value in call.inputs]
        room = plan.new(out)
        name = function.format(**call.attributes)
        numbers = [real(call, attribute) for attribute in attributes]
        plan.by_items(
            KernelKey("rows", name), x.rows, x.width,
            STEP, *inputs, room, count_word(x), np.int32(x.width), *numbers, writes=[room],
        )  # fmt: skip

    return lower


def _softplus(plan: Plan, call: OpCall) -> None:
    x, out = call.inputs[0], output(call)
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "softplus"), x.rows, x.width,
        STEP, plan.of(x), vector(plan, call), room, count_word(x), np.int32(x.width),
        writes=[room],
    )  # fmt: skip


def _columns(plan: Plan, call: OpCall) -> None:
    x, out, parts = call.inputs[0], output(call), int(call.attributes["parts"])
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "columns"), x.rows, out.width,
        STEP, plan.of(x), room, count_word(x), np.int32(x.width // parts), whole(call, "first"),
        np.int32(parts), np.int32(out.width // parts), writes=[room],
    )  # fmt: skip


def _select_outputs(plan: Plan, call: OpCall) -> None:
    x, out = call.inputs[0], output(call)
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "select_outputs"), out.rows, out.width,
        STEP, IndexArray("rows"), plan.of(x), room, count_word(out), np.int32(out.width),
        writes=[room],
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "embed": _embed,
    "rms_norm": _rms_norm,
    "add": _simple("add"),
    "multiply": _simple("multiply", "factor"),
    "softcap": _simple("softcap", "cap"),
    "softplus": _softplus,
    "columns": _columns,
    "gated": _simple("gated_{activation}", "alpha", "limit"),
    "select_outputs": _select_outputs,
}
