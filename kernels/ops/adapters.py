"""Ops that a sequence takes part in by its own scale: low-rank adapters, control vectors.

The scale of adapter i for sequence s is Batch.adapter_scales[s, i], from the position on that
Batch.adapter_starts says, before it 0. A row whose scale is 0 passes as it is, to the bit, whatever
other rows take.
"""

from edgellm.kernels.ops.base import Recording
from edgellm.kernels.program import Value, Weight


class AdapterOps(Recording):
    """Each method returns the Value that its op writes."""

    def add_scaled(self, x: Value, change: Value, adapter: int) -> Value:
        """x + scale * change, both of one width. Source: Hu et al. 2021, where change is B A h."""
        self.num_adapters = max(self.num_adapters, adapter + 1)
        return self.value("add_scaled", (x, change), width=x.width, rows=x.rows, adapter=adapter)

    def add_direction(self, x: Value, direction: Weight, adapter: int) -> Value:
        """x + scale * direction, a float vector of the width. Source: Zou et al. 2023."""
        self.num_adapters = max(self.num_adapters, adapter + 1)
        return self.value(
            "add_direction", (x,), (direction,), width=x.width, rows=x.rows, adapter=adapter
        )
