"""What every family of ops records with: fresh values, and calls in order."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgellm.kernels.program import KVLayer, OpCall, Rows, StateLayer, Value, Weight


@dataclass
class Recording:
    """Calls so far, and the caches they need."""

    calls: list[OpCall] = field(default_factory=list)
    kv_layers: list[KVLayer] = field(default_factory=list)
    windows: list[int | None] = field(default_factory=list)  # one per KV group
    state_layers: list[StateLayer] = field(default_factory=list)
    num_adapters: int = 0
    _count: int = 0

    def new_value(self, width: int, rows: Rows) -> Value:
        value = Value(self._count, width, rows)
        self._count += 1
        return value

    def new_state(self, rows: int, width: int) -> int:
        """The number of a new state of `rows` vectors of `width`."""
        self.state_layers.append(StateLayer(rows, width))
        return len(self.state_layers) - 1

    def record(
        self,
        op: str,
        inputs: tuple[Value, ...],
        weights: tuple[Weight | None, ...],
        output: Value | None,
        attributes: Mapping[str, int | float | str],
    ) -> None:
        kept = tuple(weight for weight in weights if weight is not None)
        self.calls.append(OpCall(op, inputs, kept, output, attributes))

    def value(
        self,
        op: str,
        inputs: tuple[Value, ...] = (),
        weights: tuple[Weight | None, ...] = (),
        *,
        width: int,
        rows: Rows = "tokens",
        **attributes: int | float | str,
    ) -> Value:
        """Records an op that writes a new value."""
        output = self.new_value(width, rows)
        self.record(op, inputs, weights, output, attributes)
        return output
