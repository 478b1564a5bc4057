"""Temperature: how sharp or flat the distribution is made. Drops nothing unless it is 0."""

import numpy as np

from edgellm.sampling.candidates import Candidates, best
from edgellm.sampling.mass import entropy
from edgellm.sampling.step import Step
from edgellm.sampling_params import SamplingParams


def temperature(candidates: Candidates, step: Step) -> Candidates:
    """Logits divided by the temperature; 0 or below keeps the best alone.

    With a range it moves between temperature - range and temperature + range, by the entropy as a
    share of the highest possible one to the power of the exponent (kalomaze's "entropy" sampling).
    """
    params, heat = step.params, step.params.temperature
    if params.dynatemp_range > 0.0:
        if len(candidates) == 1:
            return candidates
        share = min(1.0, max(0.0, entropy(candidates.logits)) / float(np.log(len(candidates))))
        low = max(0.0, heat - params.dynatemp_range)
        high = max(0.0, heat + params.dynatemp_range)
        heat = low + (high - low) * share**params.dynatemp_exponent
    if heat <= 0.0:
        return best(candidates, 1)
    if heat == 1.0:
        return candidates
    # Over the distance to the best, so that no small temperature overflows.
    scaled = candidates.logits - candidates.logits.max()
    with np.errstate(over="ignore"):
        scaled /= np.float32(max(heat, 1e-30))
    return Candidates(scaled, candidates.token_ids, candidates.is_sorted)


def is_greedy(params: SamplingParams) -> bool:
    """Whether the temperature leaves the best token alone."""
    return params.temperature <= 0.0 and params.dynatemp_range <= 0.0
