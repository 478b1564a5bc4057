"""The calls that draw tokens from a program's logits, behind those of its ops."""

from edgellm.kernels.cpu.lower.common import stride
from edgellm.kernels.cpu.plan import Buffer, KernelCall, Plan
from edgellm.kernels.program import Program


def draw_calls(plan: Plan, program: Program) -> list[KernelCall]:
    """None for a program without logits."""
    logits = program.outputs.get("logits")
    if logits is None:
        return []
    found = Buffer("outputs", 0)  # in the threads' scratch memory
    words = plan.of(logits), stride(logits), logits.width
    return [
        KernelCall(("best_parts",), words, (plan.buffers[logits],), (found,)),
        KernelCall(("draw",), (len(program.kv_groups),), (found,), ()),
    ]
