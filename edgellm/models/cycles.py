"""Two stacks of layers that take turns: the upper one runs after the lower one has run some times.

The blocks are those of any decoder. Source: Wang et al. 2025 (Hierarchical Reasoning Model).
"""

from collections.abc import Callable

from edgellm.kernels.program import Value
from edgellm.models.cycles_config import CyclesConfig
from edgellm.models.recorder import Recorder

Layer = Callable[[Recorder, int, Value], Value]


def cycling_layers(r: Recorder, cycles: CyclesConfig, x: Value, layer_of: Layer) -> Value:
    """x (T, hidden_size), the embedding: the upper stack's state at the start.

    Each run has keys and values of its own.
    """
    b, stack = r.builder, cycles.stack

    def run(x: Value, first: int) -> Value:
        for layer in range(first, first + stack):
            x = layer_of(r, layer, x)
        return r.norm(x, "")  # without weights

    start = r.weights.vector("hrm.z_l_init", x.width)
    low: Value | None = None
    for _ in range(cycles.high):
        for _ in range(cycles.low):
            low = run(b.add_columns(x, start) if low is None else b.add(x, low), 0)
        assert low is not None  # there is at least one run
        x = run(b.add(x, low), stack)
    return x
