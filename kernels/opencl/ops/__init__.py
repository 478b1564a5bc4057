"""From the ops of a Program to kernel launches: one small function per op, a file per family.

Kernels of the folder `source` document their arguments; the functions here follow their order.
"""

from collections.abc import Mapping

from edgellm.errors import BackendError
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.ops import (
    adapters,
    attention,
    elementwise,
    heads,
    moe,
    products,
    recurrent,
)
from edgellm.kernels.opencl.ops.best import keep_best, room_for_best
from edgellm.kernels.opencl.ops.fusions import groups
from edgellm.kernels.opencl.plan import Lowering, Plan
from edgellm.kernels.program import Program

LOWERINGS: Mapping[str, Lowering] = {
    **elementwise.LOWERINGS,
    **products.LOWERINGS,
    **heads.LOWERINGS,
    **attention.LOWERINGS,
    **moe.LOWERINGS,
    **recurrent.LOWERINGS,
    **adapters.LOWERINGS,
}


def lower(program: Program, kv: KVStorage, context: Context) -> Plan:
    """Launches for a program; BackendError names an op that there is no kernel for.

    Weights are copied to the device.
    """
    for call in program.calls:
        if call.op not in LOWERINGS:
            raise BackendError(
                f"the opencl backend has no kernel for the op {call.op!r} yet: use --backend cpu"
            )
    plan = Plan(program, kv, context)
    logits = program.outputs.get("logits")
    if logits:
        plan.best = room_for_best(plan, logits)
    for calls, fusion in groups(program):
        if fusion:
            fusion.lower(plan, calls)
        else:
            LOWERINGS[calls[0].op](plan, calls[0])
    if logits and plan.best:
        keep_best(plan, logits, plan.best)
    return plan
