"""Embedding, norms, and ops on each number alone."""

from collections.abc import Mapping, Sequence

import numpy as np

from edgellm.kernels.opencl.ops.common import output, real, vector, whole, written
from edgellm.kernels.opencl.ops.products import stored_type
from edgellm.kernels.opencl.plan import (
    STEP,
    Choice,
    Grid,
    IndexArray,
    Lowering,
    Plan,
    Room,
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


def _layer_norm(plan: Plan, call: OpCall) -> None:
    """Vectors are a row for all parts of a row of x, or a row for each; None where missing."""
    out, rest = output(call), iter(call.weights)
    found = [next(rest) if call.attributes[name] else None for name in ("weight", "bias")]
    vectors = [plan.weights.vector(weight) if weight else None for weight in found]
    rows = [np.int32(weight.rows if weight else 1) for weight in found]
    room, records, size = plan.new(out), _records_of_norm(plan, call), _part_size(call)
    plan.emit(
        [_norm_choice(plan, call, "layer_norm")],
        STEP, plan.of(call.inputs[0]), *vectors, room, records, size, real(call, "eps"), *rows,
        writes=written(room, records),
    )  # fmt: skip


def _rms_norm(plan: Plan, call: OpCall) -> None:
    norm_and_add(plan, [call])


def norm_and_add(plan: Plan, calls: Sequence[OpCall]) -> None:
    """rms_norm, and perhaps an add of what it gives and something else."""
    call, last = calls[0], calls[-1]
    residual = next(
        (plan.of(v) for v in last.inputs if v not in (call.output, call.inputs[0])), None
    )
    room, records = plan.new(output(last)), _records_of_norm(plan, last)
    plan.emit(
        [_norm_choice(plan, call, "rms_norm")],
        STEP, plan.of(call.inputs[0]), vector(plan, call), residual, room, records,
        _part_size(call), real(call, "eps"), _weight_rows(call), writes=written(room, records),
    )  # fmt: skip


def norm_and_rope(plan: Plan, calls: Sequence[OpCall]) -> None:
    """rms_norm of heads, which are then rotated."""
    norm, rope = calls
    table = rope.inputs[1]
    normed, room = plan.new(output(norm)), plan.new(output(rope))
    plan.emit(
        [_norm_choice(plan, norm, "rms_norm_rope")],
        plan.of(norm.inputs[0]), vector(plan, norm), plan.of(table), normed, room,
        _part_size(norm), real(norm, "eps"), _weight_rows(norm), whole(norm, "heads"),
        np.int32(table.width // 2), np.int32(rope.attributes["layout"] == "interleaved"),
        writes=[normed, room],
    )  # fmt: skip


def _norm_choice(plan: Plan, call: OpCall, function: str) -> Choice:
    """A work-group for each part of a row, a large one where the part is."""
    heads, variant = int(call.attributes["heads"]), plan.variant
    is_large = _part_size(call) > variant.vector * variant.group
    group = variant.row_group if is_large else variant.group
    grid = Grid(call.inputs[0].rows, lambda rows: (rows * heads * group,), (group,))
    return Choice(1, KernelKey("norm", function, group=group), grid)


def _part_size(call: OpCall) -> np.int32:
    return np.int32(call.inputs[0].width // int(call.attributes["heads"]))


def _weight_rows(call: OpCall) -> np.int32:
    return np.int32(call.weights[0].rows if call.weights else 1)


def _records_of_norm(plan: Plan, call: OpCall) -> Room | None:
    """None where a work-group has but a part of a row."""
    return plan.new_records(output(call)) if call.attributes.get("heads", 1) == 1 else None


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
            _activation(name), x.rows, x.width,
            STEP, *inputs, room, count_word(x), np.int32(x.width), *numbers, writes=[room],
        )  # fmt: skip

    return lower


def _recorded(function: str, *attributes: str) -> Lowering:
    """The same where the kernel also makes the records of its output."""

    def lower(plan: Plan, call: OpCall) -> None:
        x, out = call.inputs[0], output(call)
        inputs = [plan.of(value) for value in call.inputs]
        room, records = plan.new(out), plan.new_records(out)
        name = function.format(**call.attributes)
        numbers = [real(call, attribute) for attribute in attributes]
        launch = plan.by_items if records else plan.by_vectors
        launch(
            _activation(name, 32 if records else 0), x.rows, x.width // (32 if records else 1),
            STEP, *inputs, room, records, count_word(x), np.int32(x.width), *numbers,
            writes=written(room, records),
        )  # fmt: skip

    return lower


def _activation(function: str, numbers: int = 0) -> KernelKey:
    """A kernel of activation.cl. numbers: for a work-item; 0 is as many as a vector holds."""
    names = (("NUMBERS", numbers),)
    return KernelKey("activation", function, definitions=names)


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
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
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
    "gated": _recorded("gated_{activation}", "alpha", "limit"),
    "activate": _recorded("activate_{activation}"),
    "xielu": _simple("xielu", "alpha_p", "alpha_n", "beta"),
    "select_outputs": _select_outputs,
}
