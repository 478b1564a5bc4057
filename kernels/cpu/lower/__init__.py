"""From the ops of a Program to kernel calls: one small function per op.

Kernels document the order of their words; the functions here follow it. What can be done in the
same pass over the data is left to one kernel: an addition to the norm after it, the int8 form of
a value to whoever writes it.
"""

from collections.abc import Mapping

from edgellm.errors import BackendError
from edgellm.kernels.cpu.lower import adapters, attention, elementwise, heads, moe, recurrent
from edgellm.kernels.cpu.lower.common import Lowering
from edgellm.kernels.cpu.lower.draw import draw_calls
from edgellm.kernels.cpu.plan import Plan
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import Program

LOWERINGS: Mapping[str, Lowering] = {
    **elementwise.LOWERINGS,
    **attention.LOWERINGS,
    **heads.LOWERINGS,
    **moe.LOWERINGS,
    **recurrent.LOWERINGS,
    **adapters.LOWERINGS,
}


def lower(program: Program, kv: KVStorage) -> Plan:
    """Kernel calls for a program; BackendError names an op that there is no kernel for."""
    result = Plan(program, kv)
    for call in program.calls:
        emit = LOWERINGS.get(call.op)
        if emit is None:
            raise BackendError(f"the cpu backend has no kernel for the op {call.op!r}")
        emit(result, call)
    result.draws = draw_calls(result, program)
    return result
