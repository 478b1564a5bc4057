"""Convolutions and recurrences over a sequence."""

from collections.abc import Mapping

import numpy as np

from edgellm.kernels.opencl.ops.common import output, vector, whole
from edgellm.kernels.opencl.plan import STEP, Argument, IndexArray, Lowering, Plan
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.program import OpCall

_SEQUENCES = IndexArray("query_start"), IndexArray("positions"), IndexArray("state_slots")


def _emit(plan: Plan, call: OpCall, per_sequence: int, *numbers: Argument) -> None:
    """A launch with inputs, weights, output, states and numbers as arguments, in that order."""
    state = int(call.attributes["state"])
    inputs = [plan.of(value) for value in call.inputs]
    weights = [vector(plan, call, i) for i in range(_WEIGHTS[call.op])]
    room = plan.new(output(call))
    plan.by_items(
        KernelKey("recurrent", call.op), "seqs", per_sequence,
        STEP, *_SEQUENCES, *inputs, *weights, room, plan.store.states[state], *numbers,
        writes=[room],
    )  # fmt: skip


def _stored(plan: Plan, call: OpCall) -> np.int32:
    return np.int32(plan.kv.states[int(call.attributes["state"])].shape[2])


def _short_convolution(plan: Plan, call: OpCall) -> None:
    taps = call.weights[0]
    numbers = np.int32(taps.rows), np.int32(taps.columns), _stored(plan, call)
    _emit(plan, call, taps.rows, *numbers, whole(call, "silu"))


def _selective_scan(plan: Plan, call: OpCall) -> None:
    x, a, groups = call.inputs[0], call.weights[0], int(call.attributes["groups"])
    numbers = a.rows, x.width // a.rows, groups, call.inputs[2].width // groups
    _emit(
        plan, call, x.width,
        *map(np.int32, numbers), _stored(plan, call), np.int32(a.columns),
    )  # fmt: skip


def _delta_rule(plan: Plan, call: OpCall) -> None:
    _, k, v, dt, beta = call.inputs
    heads, key_heads = beta.width, int(call.attributes["key_heads"])
    numbers = heads, key_heads, k.width // key_heads, v.width // heads
    _emit(
        plan, call, v.width,
        *map(np.int32, numbers), _stored(plan, call), np.int32(dt.width // heads),
        np.int32(call.attributes["order"] == "tiled"),
    )  # fmt: skip


def _by_head(plan: Plan, call: OpCall) -> None:
    heads, width = int(call.attributes["heads"]), output(call).width
    _emit(plan, call, width, np.int32(heads), np.int32(width // heads), _stored(plan, call))


_WEIGHTS = {
    "short_convolution": 2,
    "selective_scan": 2,
    "delta_rule": 1,
    "linear_attention": 1,
    "wkv7": 0,
}
LOWERINGS: Mapping[str, Lowering] = {
    "short_convolution": _short_convolution,
    "selective_scan": _selective_scan,
    "delta_rule": _delta_rule,
    "linear_attention": _by_head,
    "wkv7": _by_head,
}
