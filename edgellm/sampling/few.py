"""Samplers once more, for the few candidates that top-k leaves: plain numbers, best first.

What they decide is what those of `filters` do; for forty numbers numpy's calls would take longer
than the arithmetic. They work on distances: logits less the best one, 0 and below, in order.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate

from edgellm.kernels.draw import MOST_SOUGHT, Filter
from edgellm.sampling_params import SamplingParams

MOST_FEW = MOST_SOUGHT  # candidates: what is found in one pass

Few = Callable[[list[float], SamplingParams], list[float]]


def few_top_p(distances: list[float], params: SamplingParams) -> list[float]:
    """The fewest, best first, that hold the probability p."""
    sums = _sums(distances)
    count = bisect_left(sums, params.top_p * sums[-1]) + 1
    return distances[: max(count, params.min_keep)]


def few_min_p(distances: list[float], params: SamplingParams) -> list[float]:
    """Those at least `min_p` times as likely as the best."""
    lowest = math.log(params.min_p)
    count = 1
    while count < len(distances) and distances[count] >= lowest:
        count += 1
    return distances[: max(count, params.min_keep)]


def few_temperature(distances: list[float], params: SamplingParams) -> list[float]:
    """Divided by the temperature, above 0."""
    heat = params.temperature
    return distances if heat == 1.0 else [distance / heat for distance in distances]


# What they are called where a step draws tokens by itself, and the number they go by.
FILTERS: Mapping[Few, tuple[Filter, Callable[[SamplingParams], float]]] = {
    few_top_p: ("top_p", lambda p: p.top_p),
    few_min_p: ("min_p", lambda p: math.log(p.min_p)),
    few_temperature: ("temperature", lambda p: p.temperature),
}


def few_draw(distances: list[float], share: float) -> int:
    """The place at which the running sum of weights passes `share`, in [0, 1), of the whole.

    A weight of 0 is never drawn.
    """
    sums = _sums(distances)
    return min(bisect_right(sums, share * sums[-1]), bisect_left(sums, sums[-1]))


def _sums(distances: list[float]) -> list[float]:
    return list(accumulate(map(math.exp, distances)))
