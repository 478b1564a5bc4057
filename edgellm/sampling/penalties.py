"""Penalties on tokens that the text already has. Knows nothing of the samplers after it."""

import numpy as np

from edgellm.sampling.candidates import Candidates, Float32, Ids
from edgellm.sampling.step import Step, last


def penalties(candidates: Candidates, step: Step) -> Candidates:
    """Logits less what the last `repeat_last_n` tokens of the history cost.

    repeat_penalty divides a positive logit and multiplies another; then frequency_penalty is
    taken off once per occurrence and presence_penalty once. Source: Keskar et al. 2019 (CTRL)
    for the first, the OpenAI API for the others.
    """
    params = step.params
    recent = np.asarray(last(step.history, params.repeat_last_n), np.intp)
    ids, counts = np.unique(recent, return_counts=True)
    ordered, places, found = candidates.find(ids)
    seen = ordered.logits[places]
    repeat = np.float32(params.repeat_penalty)
    seen = np.where(seen > 0, seen / repeat, seen * repeat)
    seen -= (counts[found] * params.frequency_penalty + params.presence_penalty).astype(np.float32)
    return with_logits(ordered, places, seen)


def with_logits(candidates: Candidates, places: Ids, logits: Float32) -> Candidates:
    """Candidates (by ascending id) with other logits at some places."""
    changed = candidates.logits.copy()
    changed[places] = logits
    return Candidates(changed, candidates.token_ids)
