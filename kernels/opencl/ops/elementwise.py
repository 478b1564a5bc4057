"""Embedding, norms, and ops on each number alone."""

from collections.abc import Mapping

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


def _embed(index: IndexArray) -> Lowering:
    def lower(plan: Plan, call: OpCall) -> None:
        table, out = call.weights[0], output(call)
        fmt = table.format
        key = KernelKey("embed", "embed", stored_type(table), vector=1)
        room = plan.new(out)
        plan.by_items(
            key, out.rows, out.width if fmt.unpack is None else out.width // 32,
            STEP, index, plan.weights.matrix(table), room, np.int32(out.width),
            real(call, "scale"), writes=[room],
        )  # fmt: skip

    return lower


def _norm(plan: Plan, call: OpCall) -> None:
    """Vectors are a row for all parts of a row of x, or a row for each; None where missing."""
    x, out, rest = call.inputs[0], output(call), iter(call.weights)
    heads, group = int(call.attributes["heads"]), plan.variant.group
    names = ("weight", "bias") if call.op == "layer_norm" else ("weight",)
    # An rms_norm has a weight or none; a layer_norm says which of its vectors there are.
    found = [next(rest, None) if call.attributes.get(name, 1) else None for name in names]
    vectors = [plan.weights.vector(weight) if weight else None for weight in found]
    rows = [np.int32(weight.rows if weight else 1) for weight in found]
    room = plan.new(out)
    grid = Grid(x.rows, lambda rows: (rows * heads * group,), (group,))
    plan.emit(
        [Choice(1, KernelKey("norm", call.op), grid)],
        STEP, plan.of(x), *vectors, room, np.int32(x.width // heads), real(call, "eps"), *rows,
        writes=[room],
    )  # fmt: skip


def _gaussian_top_k(plan: Plan, call: OpCall) -> None:
    x, group = call.inputs[0], plan.variant.group
    room = plan.new(output(call))
    grid = Grid(x.rows, lambda rows: (rows * group,), (group,))
    plan.emit(
        [Choice(1, KernelKey("norm", call.op), grid)],
        STEP, plan.of(x), room, np.int32(x.width), real(call, "deviations"), writes=[room],
    )  # fmt: skip


def _remainder(plan: Plan, call: OpCall) -> None:
    x, room = call.inputs[0], plan.new(output(call))
    plan.by_items(
        KernelKey("quantize", "remainder_of"), x.rows, x.width // 32,
        STEP, plan.of(x), room, count_word(x), np.int32(x.width), writes=[room],
    )  # fmt: skip


def _simple(function: str, *attributes: str) -> Lowering:
    """An op of activation.cl that is given its inputs, its output and some numbers."""

    def lower(plan: Plan, call: OpCall) -> None:
        x, out = call.inputs[0], output(call)
        inputs = [plan.of(value) for value in call.inputs]
        room = plan.new(out)
        name = function.format(**call.attributes)
        numbers = [real(call, attribute) for attribute in attributes]
        plan.by_vectors(
            KernelKey("activation", name), x.rows, x.width,
            STEP, *inputs, room, count_word(x), np.int32(x.width), *numbers, writes=[room],
        )  # fmt: skip

    return lower


def _with_vector(function: str) -> Lowering:
    """An op of rows.cl that is given x, a vector or none, and its output."""

    def lower(plan: Plan, call: OpCall) -> None:
        x, out = call.inputs[0], output(call)
        room = plan.new(out)
        plan.by_items(
            KernelKey("rows", function), x.rows, x.width,
            STEP, plan.of(x), vector(plan, call), room, count_word(x), np.int32(x.width),
            writes=[room],
        )  # fmt: skip

    return lower


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
    "embed": _embed(IndexArray("input_ids")),
    "embed_positions": _embed(IndexArray("positions")),
    "rms_norm": _norm,
    "layer_norm": _norm,
    "remainder": _remainder,
    "add": _simple("add"),
    "multiply": _simple("multiply", "factor"),
    "multiply_columns": _with_vector("multiply_columns"),
    "add_columns": _with_vector("add_columns"),
    "clamp": _simple("clamp_to", "limit"),
    "softcap": _simple("softcap", "cap"),
    "softplus": _with_vector("softplus"),
    "gaussian_top_k": _gaussian_top_k,
    "columns": _columns,
    "gated": _simple("gated_{activation}", "alpha", "limit"),
    "activate": _simple("activate_{activation}"),
    "xielu": _simple("xielu", "alpha_p", "alpha_n", "beta"),
    "select_outputs": _select_outputs,
}
