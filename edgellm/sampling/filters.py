"""Samplers that narrow the candidates: one function each, llama.cpp's meanings.

Each takes candidates and the Step and returns candidates, at least one and, where it can, at least
`min_keep` of them. `chain` says when they are off.
"""

import numpy as np

from edgellm.sampling.candidates import Candidates, best
from edgellm.sampling.mass import at_least, deviation, mass_and_mean, nearest
from edgellm.sampling.step import Step

XTC_DRAW = 1  # the purpose of xtc's draws


def top_k(candidates: Candidates, step: Step) -> Candidates:
    """The k most likely. Source: Fan et al. 2018."""
    return best(candidates, max(step.params.top_k, step.params.min_keep))


def top_p(candidates: Candidates, step: Step) -> Candidates:
    """The fewest, best first, that hold the probability p.

    Source: Holtzman et al. 2020, nucleus sampling.
    """
    params = step.params
    kept = nearest(candidates.logits, 0.0, params.top_p, params.min_keep)
    return candidates.take(kept, candidates.is_sorted)


def typical_p(candidates: Candidates, step: Step) -> Candidates:
    """The fewest that hold the probability p, those first whose surprise is nearest to the
    entropy. Source: Meister et al. 2023, locally typical sampling.
    """
    params, logits = step.params, candidates.logits
    # The entropy is minus the mean logarithm of a probability: as far from the best's as logits.
    total, mean = mass_and_mean(logits)
    kept = nearest(logits, mean, params.typical_p, params.min_keep, total)
    return candidates.take(kept, candidates.is_sorted)


def min_p(candidates: Candidates, step: Step) -> Candidates:
    """Those at least `min_p` times as likely as the best. Source: Nguyen et al. 2024."""
    params = step.params
    threshold = float(candidates.logits.max()) + float(np.log(params.min_p))
    return _above(candidates, threshold, params.min_keep)


def top_n_sigma(candidates: Candidates, step: Step) -> Candidates:
    """Those within n standard deviations of the best logit.

    Source: Tang et al. 2024, "Top-nsigma: not all logits are you need".
    """
    params, logits = step.params, candidates.logits
    threshold = float(logits.max()) - params.top_n_sigma * deviation(logits)
    return _above(candidates, threshold, params.min_keep)


def xtc(candidates: Candidates, step: Step) -> Candidates:
    """With `xtc_probability`, drops all that reach the threshold but the least likely of them.

    Source: the author's description, github.com/oobabooga/text-generation-webui/pull/6335.
    """
    params = step.params
    if step.uniform(XTC_DRAW) >= params.xtc_probability:
        return candidates
    likely = at_least(candidates.logits, params.xtc_threshold)
    dropped = len(likely) - 1
    if dropped < 1 or len(candidates) - dropped < params.min_keep:
        return candidates
    order = np.argsort(-candidates.logits[likely], kind="stable")
    kept = np.ones(len(candidates), np.bool_)
    kept[likely[order[:-1]]] = False
    return candidates.take(np.flatnonzero(kept), candidates.is_sorted)


def _above(candidates: Candidates, threshold: float, least: int) -> Candidates:
    """Those whose logits reach the threshold; the best ones where these are too few."""
    kept = np.flatnonzero(candidates.logits >= np.float32(threshold))
    if len(kept) < max(1, least):
        return best(candidates, max(1, least))
    return candidates.take(kept, candidates.is_sorted)
