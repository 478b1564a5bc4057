"""Cuts a recorded program in two, so that two devices may each run a part.

Knows nothing of devices or of what a layer is.
"""

from collections.abc import Collection
from dataclasses import replace

from edgellm.kernels.program import OpCall, Program, Value


def split(program: Program, at: int) -> tuple[Program, Program]:
    """The calls before position `at`, and those from there on.

    What the second part reads of the first becomes outputs of that one and inputs of this one,
    under the same names; but small things that depend on the batch alone, such as tables of
    rotations, are computed in both.
    """
    head, tail = program.calls[:at], program.calls[at:]
    repeated = tuple(call for call in head if _is_cheap(call))
    made = {call.output for call in head} - {call.output for call in repeated}
    wanted = [value for call in tail for value in call.inputs] + list(program.outputs.values())
    crossing = {f"value {v.index}": v for v in dict.fromkeys(wanted) if v in made}
    first = replace(program, calls=head, outputs=crossing)
    second = replace(program, calls=_needed(repeated, wanted) + tail, inputs=crossing)
    return first, second


def _is_cheap(call: OpCall) -> bool:
    return not call.inputs and all(weight.rows == 1 for weight in call.weights)


def _needed(calls: tuple[OpCall, ...], values: Collection[Value]) -> tuple[OpCall, ...]:
    return tuple(call for call in calls if call.output in values)


def cached_layers(program: Program) -> frozenset[int]:
    """Indices of the kv_layers that the program's calls use."""
    return frozenset(int(c.attributes["layer"]) for c in program.calls if "layer" in c.attributes)


def states_used(program: Program) -> frozenset[int]:
    """Indices of the state_layers that the program's calls use."""
    return frozenset(int(c.attributes["state"]) for c in program.calls if "state" in c.attributes)
