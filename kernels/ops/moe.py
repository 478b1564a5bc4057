"""Ops of a mixture of experts: choose, multiply by the chosen, add up."""

from dataclasses import dataclass
from typing import Literal

from edgellm.kernels.ops.base import Recording
from edgellm.kernels.program import Value, Weight

Gating = Literal["softmax", "softmax_selected", "sigmoid"]

MIN_GATE_SUM = 2.0**-14  # what normalised weights are divided by at least


@dataclass(frozen=True)
class ExpertGroups:
    """Experts in `count` equal groups, of which a token sees the `used` with the highest scores.

    best: a group's score is the sum of so many of its best experts, 1 or 2.
    Sources: DeepSeek-AI 2024 (V2: the best one; V3: the best two).
    """

    count: int
    used: int
    best: int


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
        groups: ExpertGroups | None = None,
    ) -> Value:
        """Chooses top_k experts per row. scores (T, experts) -> (T, 2 * top_k).

        The first top_k columns are expert numbers as floats, best first, the lower number first
        where two are equal; the others their weights. gating "softmax" and "sigmoid" turn all
        scores into probabilities, of which the largest top_k are taken; "softmax_selected" takes
        the largest scores and applies softmax to those alone. selection_bias (experts elements)
        is added for choosing only, groups and experts. normalize: weights are then divided by
        their sum, or by MIN_GATE_SUM where that is more. factor multiplies them last.
        """
        groups = groups or ExpertGroups(1, 1, 1)
        return self.value(
            "moe_route",
            (scores,),
            (selection_bias,),
            width=2 * top_k,
            top_k=top_k,
            gating=gating,
            normalize=int(normalize),
            factor=factor,
            groups=groups.count,
            groups_used=groups.used,
            group_best=groups.best,
        )

    def moe_matmul(
        self,
        x: Value,
        routing: Value,
        weight: Weight,
        *,
        experts: int,
        part: slice | None = None,
        bias: Weight | None = None,
        scale: Weight | None = None,
    ) -> Value:
        """For each rank r of a row's experts e: scale[e] * weight[e] x_r + bias[e].

        weight: the matrices of all experts one after another, (experts * height, columns); `part`
        says which n of the rows of each are meant, None is all of them. bias (experts, n); scale
        experts elements. x: (T, columns), the same row for every rank, or
        (T, top_k * columns), a part for each. routing: as from moe_route; fractions of expert
        numbers are dropped. Output (T, top_k * n),
        ranks side by side.
        """
        top_k = routing.width // 2
        if x.width not in (weight.columns, top_k * weight.columns):
            raise ValueError(f"{weight.name}: {weight.columns} columns for rows of {x.width}")
        first, last = rows_of_part(weight, experts, part)
        return self.value(
            "moe_matmul",
            (x, routing),
            (weight, bias, scale),
            width=top_k * (last - first),
            experts=experts,
            first=first,
            bias=int(bias is not None),
            scale=int(scale is not None),
        )

    def moe_combine(self, x: Value, routing: Value) -> Value:
        """Sum of routing weight r times part r of a row, added in rank order from the first.

        x (T, top_k * n), routing from moe_route -> (T, n).
        """
        return self.value("moe_combine", (x, routing), width=2 * x.width // routing.width)


def rows_of_part(weight: Weight, matrices: int, part: slice | None) -> tuple[int, int]:
    """First and last of the rows that `part` names in each of the matrices of a weight."""
    height = weight.rows // matrices
    first, last, _ = (part or slice(None)).indices(height)
    return first, last
