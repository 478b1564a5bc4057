"""Ops of a mixture of experts: choose, multiply by the chosen, add up."""

from typing import Literal

from edgellm.kernels.ops.base import Recording
from edgellm.kernels.program import Value, Weight

Gating = Literal["softmax", "softmax_selected", "sigmoid"]


class ExpertOps(Recording):
    """Each method returns the Value that its op writes."""

    def moe_route(
        self,
        scores: Value,
        top_k: int,
        *,
        gating: Gating,
        normalize: bool = False,
        factor: float = 1.0,
        selection_bias: Weight | None = None,
    ) -> Value:
        """Chooses top_k experts per row. scores (T, experts) -> (T, 2 * top_k).

        The first top_k columns are expert numbers as floats, best first, the lower number first
        where two are equal; the others their weights. gating "softmax" and "sigmoid" turn all
        scores into probabilities, of which the largest top_k are taken; "softmax_selected" takes
        the largest scores and applies softmax to those alone. selection_bias (experts elements)
        is added for choosing only. normalize: weights are then divided by their sum. factor
        multiplies them last.
        """
        return self.value(
            "moe_route",
            (scores,),
            (selection_bias,),
            width=2 * top_k,
            top_k=top_k,
            gating=gating,
            normalize=int(normalize),
            factor=factor,
        )

    def moe_matmul(
        self,
        x: Value,
        routing: Value,
        weight: Weight,
        *,
        experts: int,
        bias: Weight | None = None,
        scale: Weight | None = None,
    ) -> Value:
        """For each rank r of a row's experts e: scale[e] * weight[e] x_r + bias[e].

        weight: the matrices of all experts one after another, (experts * n, columns); bias
        (experts, n); scale experts elements. x: (T, columns), the same row for every rank, or
        (T, top_k * columns), a part for each. routing: from moe_route. Output (T, top_k * n),
        ranks side by side.
        """
        top_k = routing.width // 2
        if x.width not in (weight.columns, top_k * weight.columns):
            raise ValueError(f"{weight.name}: {weight.columns} columns for rows of {x.width}")
        return self.value(
            "moe_matmul",
            (x, routing),
            (weight, bias, scale),
            width=top_k * (weight.rows // experts),
            experts=experts,
            bias=int(bias is not None),
            scale=int(scale is not None),
        )

    def moe_combine(self, x: Value, routing: Value) -> Value:
        """Sum of routing weight r times part r of a row, added in rank order from the first.

        x (T, top_k * n), routing from moe_route -> (T, n).
        """
        return self.value("moe_combine", (x, routing), width=2 * x.width // routing.width)
