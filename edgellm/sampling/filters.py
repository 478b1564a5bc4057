"""Samplers that narrow or flatten the candidates: one function each, llama.cpp's meanings.

Each takes candidates and SamplingParams and returns candidates, at least one.
"""

import numpy as np

from edgellm.sampling.candidates import Candidates, best
from edgellm.types import SamplingParams

_FEW = 1024  # sorting a few is cheap, and they nearly always hold the mass that top_p asks for


def top_k(candidates: Candidates, params: SamplingParams) -> Candidates:
    """The k most likely; 0 keeps all. Source: Fan et al. 2018."""
    return best(candidates, params.top_k) if params.top_k > 0 else candidates


def top_p(candidates: Candidates, params: SamplingParams) -> Candidates:
    """The fewest, best first, that hold the probability p; 1.0 keeps all.

    Source: Holtzman et al. 2020, nucleus sampling.
    """
    if params.top_p >= 1.0:
        return candidates
    largest = float(candidates.logits.max())
    total = np.exp(candidates.logits.astype(np.float64) - largest).sum()
    for count in (_FEW, len(candidates.logits)):
        head = best(candidates, count)
        mass = np.cumsum(np.exp(head.logits.astype(np.float64) - largest)) / total
        if mass[-1] >= params.top_p:
            break
    return best(head, int(np.searchsorted(mass, params.top_p)) + 1)


def min_p(candidates: Candidates, params: SamplingParams) -> Candidates:
    """Those at least `min_p` times as likely as the best; 0.0 keeps all.

    Source: Nguyen et al. 2024.
    """
    if params.min_p <= 0.0:
        return candidates
    threshold = float(candidates.logits.max()) + float(np.log(params.min_p))
    return candidates.take(np.flatnonzero(candidates.logits >= threshold), candidates.is_sorted)


def temperature(candidates: Candidates, params: SamplingParams) -> Candidates:
    """Logits divided by the temperature; 0 or below keeps the best alone."""
    if params.temperature <= 0.0:
        return best(candidates, 1)
    scaled = candidates.logits / np.float32(params.temperature)
    return Candidates(scaled, candidates.token_ids, candidates.is_sorted)
