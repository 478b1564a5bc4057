"""How adapters enter a program while it is recorded. Knows nothing of files.

Adapter i of the model is column i of Batch.adapter_scales.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from edgellm.errors import GGUFError
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Value
from edgellm.models.adapters import Adapter, LowRank
from edgellm.models.weights import rows_of


@dataclass
class Adapting:
    """Adds what each adapter changes, and remembers which of its parts had a place."""

    builder: Builder
    adapters: Sequence[Adapter]
    _used: set[tuple[str, str]] = field(default_factory=set)

    def product(self, y: Value, x: Value, tensor: str, rows: int, first: int) -> Value:
        """y, the product of x with rows `first` and on of `tensor`, which has `rows` of them."""
        b = self.builder
        for number, adapter in enumerate(self.adapters):
            pair = self._pair(adapter, tensor, rows, x.width, 1)
            if pair is not None:
                low = self._scaled(b.matmul(x, pair.a), pair)
                part = pair.b if y.width == rows else rows_of(pair.b, first, y.width)
                y = b.add_scaled(y, b.matmul(low, part), number)
        return y

    def expert_product(
        self,
        y: Value,
        x: Value,
        routing: Value,
        tensor: str,
        shape: tuple[int, int, int],
        part: slice | None,
    ) -> Value:
        """y, the product of `part` of each expert's rows; shape: (experts, rows, columns)."""
        b, (experts, rows, columns) = self.builder, shape
        for number, adapter in enumerate(self.adapters):
            pair = self._pair(adapter, tensor, rows, columns, experts)
            if pair is not None:
                low = self._scaled(b.moe_matmul(x, routing, pair.a, experts=experts), pair)
                change = b.moe_matmul(low, routing, pair.b, experts=experts, part=part)
                y = b.add_scaled(y, change, number)
        return y

    def layer(self, x: Value, layer: int) -> Value:
        """x, the output of a layer, with the directions for it."""
        for number, adapter in enumerate(self.adapters):
            direction = adapter.directions.get(layer)
            if direction is None:
                continue
            if direction.columns != x.width:
                raise GGUFError(
                    f"adapter {adapter.name}: {direction.name} has {direction.columns} numbers, "
                    f"expected {x.width}"
                )
            self._used.add((adapter.name, direction.name))
            x = self.builder.add_direction(x, direction, number)
        return x

    def refuse_unused(self) -> None:
        """GGUFError naming a part of an adapter that changes nothing in this model."""
        for adapter in self.adapters:
            for name in (*adapter.pairs, *(d.name for d in adapter.directions.values())):
                if (adapter.name, name) not in self._used:
                    raise GGUFError(
                        f"adapter {adapter.name} changes {name}, which this model does not have or "
                        "does not multiply by: the adapter is for another model"
                    )

    def _pair(
        self, adapter: Adapter, tensor: str, rows: int, columns: int, matrices: int
    ) -> LowRank | None:
        pair = adapter.pairs.get(tensor)
        if pair is None:
            return None
        found = pair.matrices, pair.rows, pair.a.columns
        if found != (matrices, rows, columns):
            raise GGUFError(
                f"adapter {adapter.name} changes {tensor} as {_shape(*found)}, "
                f"and the model's is {_shape(matrices, rows, columns)}"
            )
        self._used.add((adapter.name, tensor))
        return pair

    def _scaled(self, x: Value, pair: LowRank) -> Value:
        return x if pair.factor == 1 else self.builder.multiply(x, pair.factor)


def _shape(matrices: int, rows: int, columns: int) -> str:
    shape = f"{rows} rows of {columns}"
    return shape if matrices == 1 else f"{matrices} matrices of {shape}"
