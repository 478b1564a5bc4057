"""Adapters with a scale for each sequence."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgellm.kernels.opencl.ops.common import output, vector, whole
from edgellm.kernels.opencl.plan import STEP, IndexArray, Lowering, Plan, Room, count_word
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.program import OpCall


def _add(plan: Plan, call: OpCall, change: Room | Any, change_rows: int) -> None:
    """change_rows: 1, or 0 where one row of changes is for all."""
    x, out = call.inputs[0], output(call)
    room = plan.new(out)
    rows = IndexArray("rows") if x.rows == "outputs" else None
    plan.by_items(
        KernelKey("rows", "add_scaled"), out.rows, out.width,
        STEP, IndexArray("adapter_scales"), rows, plan.of(x), change, room, count_word(out),
        np.int32(out.width), np.int32(change_rows), whole(call, "adapter"), writes=[room],
    )  # fmt: skip


def _add_scaled(plan: Plan, call: OpCall) -> None:
    _add(plan, call, plan.of(call.inputs[1]), 1)


def _add_direction(plan: Plan, call: OpCall) -> None:
    _add(plan, call, vector(plan, call), 0)


LOWERINGS: Mapping[str, Lowering] = {"add_scaled": _add_scaled, "add_direction": _add_direction}
