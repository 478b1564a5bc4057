"""Products with matrices: one for all rows, or one of many for each part of a row."""

from collections.abc import Mapping

import numpy as np

from edgellm.kernels.formats import by_name
from edgellm.kernels.opencl.ops.common import bias_and_scale, output
from edgellm.kernels.opencl.plan import STEP, Choice, Grid, Lowering, Plan, Room, Size, count_word
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.program import OpCall, Value, Weight


def stored_type(weight: Weight) -> int:
    """The type that a matrix has on the device."""
    return by_name("F32").type_id if weight.format.name == "F64" else weight.type_id


def _operand(plan: Plan, x: Value, weight: Weight) -> Room:
    """What a product with `weight` reads: int8 records, or the float rows themselves."""
    return plan.of(x) if weight.format.unpack is None else plan.records(x)


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
    source = _operand(plan, x, weight)
    room = plan.new(out)
    plan.emit(
        [choice(tokens) for tokens in variant.tokens],
        STEP, source, plan.weights.matrix(weight), bias, scale, room, count_word(x),
        np.int32(weight.rows), np.int32(weight.columns), writes=[room],
    )  # fmt: skip


def expert_products(
    plan: Plan, call: OpCall, *, matrices: int, ranks: int, routing: Value | None
) -> None:
    """Part r of a row times the matrix of its rank r: the one that `routing` says, or number r."""
    x, weight, out = call.inputs[0], call.weights[0], output(call)
    variant, rows, first = plan.variant, out.width // ranks, int(call.attributes["first"])
    groups = -(-rows // variant.strip_rows)
    local = variant.lanes, variant.slices, 1

    def sizes(tokens: int) -> Size:
        return groups * local[0], ranks * local[1], tokens

    bias, scale = bias_and_scale(plan, call)
    source = _operand(plan, x, weight)
    room = plan.new(out)
    key = KernelKey("matmul", "moe_matmul", stored_type(weight), (("TOKENS", 1),))
    plan.emit(
        [Choice(1, key, Grid(x.rows, sizes, local))],
        source, plan.of(routing) if routing else None,
        plan.weights.matrix(weight, matrices, slice(first, first + rows)), bias, scale, room,
        np.int32(rows), np.int32(weight.columns), np.int32(ranks),
        np.int32(x.width // weight.columns), writes=[room],
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {"matmul": _matmul}
