"""Natural-log probabilities under the model's own distribution, before any sampler."""

import numpy as np

from edgellm.sampling.candidates import Candidates, Float32, best


def logprobs(logits: Float32, token_id: int, count: int) -> tuple[float, list[tuple[int, float]]]:
    """Log-probability of `token_id` and the `count` best (token id, log-probability)."""
    largest = float(logits.max())
    norm = largest + float(np.log(np.exp(logits.astype(np.float64) - largest).sum()))
    alternatives: list[tuple[int, float]] = []
    if count:
        top = best(Candidates(logits), count)
        alternatives = [(top.token(i), float(x) - norm) for i, x in enumerate(top.logits)]
    return float(logits[token_id]) - norm, alternatives
