"""Lowerings of adapters with a scale for each sequence."""

from collections.abc import Mapping

from edgellm.kernels.cpu.lower.common import Lowering, by_rows, integer, output, stride
from edgellm.kernels.cpu.plan import Plan
from edgellm.kernels.program import OpCall


def _add_scaled(plan: Plan, call: OpCall) -> None:
    (x, change), out = call.inputs, output(call)
    plan.emit(
        ("add_scaled", x.rows),
        plan.of(x), plan.of(change), stride(change), plan.new(out), stride(x),
        integer(call, "adapter"), partition=by_rows(x),
    )  # fmt: skip


def _add_direction(plan: Plan, call: OpCall) -> None:
    """The same vector for every row."""
    x, out = call.inputs[0], output(call)
    plan.emit(
        ("add_scaled", x.rows),
        plan.of(x), plan.vector(call.weights[0]), 0, plan.new(out), stride(x),
        integer(call, "adapter"), partition=by_rows(x),
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {"add_scaled": _add_scaled, "add_direction": _add_direction}
