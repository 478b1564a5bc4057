"""Ops on the equal parts of a row, each for itself."""

from collections.abc import Mapping

import numpy as np

from edgellm.kernels.opencl.ops.common import output, whole
from edgellm.kernels.opencl.ops.products import expert_products
from edgellm.kernels.opencl.plan import STEP, Lowering, Plan, count_word
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.program import OpCall


def _concat_heads(plan: Plan, call: OpCall) -> None:
    (a, b), out, heads = call.inputs, output(call), int(call.attributes["heads"])
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "concat_heads"), out.rows, out.width,
        STEP, plan.of(a), plan.of(b), room, count_word(out), np.int32(a.width // heads),
        np.int32(b.width // heads), whole(call, "heads"), writes=[room],
    )  # fmt: skip


def _head_matmul(plan: Plan, call: OpCall) -> None:
    """The kernel of experts, of which head h takes number h."""
    heads = int(call.attributes["heads"])
    expert_products(plan, call, matrices=heads, ranks=heads, routing=None)


def _scale_heads(plan: Plan, call: OpCall) -> None:
    (x, factors), out = call.inputs, output(call)
    room = plan.new(out)
    plan.by_items(
        KernelKey("rows", "scale_heads"), out.rows, out.width,
        STEP, plan.of(x), plan.of(factors), room, count_word(out), np.int32(factors.width),
        np.int32(x.width // factors.width), writes=[room],
    )  # fmt: skip


LOWERINGS: Mapping[str, Lowering] = {
    "concat_heads": _concat_heads,
    "head_matmul": _head_matmul,
    "scale_heads": _scale_heads,
}
