"""What lowerings of all families use. Knows no op."""

from typing import Any

import numpy as np

from edgellm.kernels.opencl.plan import Plan, Room
from edgellm.kernels.program import OpCall, Value


def output(call: OpCall) -> Value:
    """The value that the op writes."""
    assert call.output is not None
    return call.output


def real(call: OpCall, name: str, default: float = 0.0) -> np.float32:
    """A number among the attributes."""
    return np.float32(call.attributes.get(name, default))


def whole(call: OpCall, name: str, default: int = 0) -> np.int32:
    """A whole number among the attributes."""
    return np.int32(call.attributes.get(name, default))


def vector(plan: Plan, call: OpCall, position: int = 0) -> Any | None:
    """A small weight of the op on the device; None when it has none there."""
    weights = call.weights[position : position + 1]
    return plan.weights.vector(weights[0]) if weights else None


def bias_and_scale(plan: Plan, call: OpCall) -> tuple[Any | None, Any | None]:
    """The optional vectors of a product."""
    extra = iter(call.weights[1:])
    bias = plan.weights.vector(next(extra)) if call.attributes.get("bias") else None
    scale = plan.weights.vector(next(extra)) if call.attributes.get("scale") else None
    return bias, scale


def written(*rooms: Room | None) -> list[Room]:
    """Those that there are."""
    return [room for room in rooms if room is not None]
