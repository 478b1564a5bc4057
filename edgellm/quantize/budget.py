"""Types for a number of bytes: the least sum of errors that fits. Knows no files.

Of each tensor only the choices on the lower convex hull of (bytes, error) matter. From the smallest
ones on, the step with the largest gain per byte comes next, as long as it fits: the solution of
the relaxed knapsack problem, and what fits into the rest after it (Shoham and Gersho 1988).
"""

import heapq
from collections.abc import Mapping, Sequence
from fractions import Fraction

from edgellm.errors import RequestError
from edgellm.quantize.sensitivity import Choice


def spend(
    choices: Mapping[str, Sequence[Choice]], budget: int, weights: Mapping[str, float]
) -> dict[str, Choice]:
    """A choice for every tensor, of at most `budget` bytes in all.

    weights: what a tensor's error counts, 1 where it is not there. The same input gives the same
    choices: of equal gains the tensor that comes first goes first. RequestError when even the
    smallest choices are too many bytes.
    """
    hulls = {name: _hull(offered) for name, offered in choices.items()}
    chosen = {name: hull[0] for name, hull in hulls.items()}
    left = budget - sum(choice.nbytes for choice in chosen.values())
    if left < 0:
        raise RequestError(
            f"the smallest that these types give is {budget - left:,} bytes of weights and "
            f"there is room for {max(0, budget):,}: allow smaller types, or more bytes",
            "target_size",
        )
    steps: list[tuple[float, int, str, int]] = []

    def offer(order: int, name: str, at: int) -> None:
        hull = hulls[name]
        if at + 1 < len(hull):
            gain = weights.get(name, 1.0) * (hull[at].error - hull[at + 1].error)
            heapq.heappush(
                steps, (-gain / (hull[at + 1].nbytes - hull[at].nbytes), order, name, at)
            )

    for order, name in enumerate(hulls):
        offer(order, name, 0)
    while steps:
        _, order, name, at = heapq.heappop(steps)
        cost = hulls[name][at + 1].nbytes - hulls[name][at].nbytes
        if cost <= left:  # else a smaller tensor's step may still fit
            left -= cost
            chosen[name] = hulls[name][at + 1]
            offer(order, name, at + 1)
    return chosen


def _hull(offered: Sequence[Choice]) -> list[Choice]:
    """The lower convex hull, from the smallest on, each with less error than those before."""
    hull: list[Choice] = []
    for choice in sorted(offered, key=lambda choice: (choice.nbytes, choice.error)):
        if hull and choice.error >= hull[-1].error:
            continue
        while len(hull) > 1 and _slope(hull[-2], choice) >= _slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(choice)
    return hull


def _slope(a: Choice, b: Choice) -> Fraction:
    """Gain per byte."""
    return (Fraction(a.error) - Fraction(b.error)) / (b.nbytes - a.nbytes)
