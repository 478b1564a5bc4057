"""Ops on the equal parts ("heads") of a row, each for itself."""

from edgellm.kernels.ops.base import Recording
from edgellm.kernels.ops.moe import rows_of_part
from edgellm.kernels.program import Value, Weight


class HeadOps(Recording):
    """Each method returns the Value that its op writes."""

    def concat_heads(self, a: Value, b: Value, heads: int) -> Value:
        """Head h of a, then head h of b, for each h."""
        return self.value("concat_heads", (a, b), width=a.width + b.width, rows=a.rows, heads=heads)

    def head_matmul(self, x: Value, weight: Weight, heads: int, part: slice | None = None) -> Value:
        """For each head h: weight[h] x_h. x (T, heads * columns) -> (T, heads * n).

        weight: the matrices of all heads one after another, (heads * height, columns); `part`
        says which n of the rows of each are meant, None is all of them.
        """
        if x.width != heads * weight.columns:
            raise ValueError(f"{weight.name}: {weight.columns} columns for {heads} of {x.width}")
        first, last = rows_of_part(weight, heads, part)
        width = heads * (last - first)
        return self.value("head_matmul", (x,), (weight,), width=width, heads=heads, first=first)

    def scale_heads(self, x: Value, factors: Value) -> Value:
        """x_h * factors[h] for each head h. x (T, heads * n), factors (T, heads)."""
        if x.width % factors.width:
            raise ValueError(f"{factors.width} factors for rows of {x.width}")
        return self.value("scale_heads", (x, factors), width=x.width, rows=x.rows)
