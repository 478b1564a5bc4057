"""From one row of logits to one token. Knows nothing of models, batches or text.

The samplers run in llama.cpp's default order; a new one is a function and a place in the pipeline.
"""

from collections.abc import Callable, Sequence

import numpy as np

from edgellm.errors import EdgeLLMError
from edgellm.sampling.candidates import Candidates, Float32
from edgellm.sampling.draws import uniform
from edgellm.sampling.filters import min_p, temperature, top_k, top_p
from edgellm.sampling.logprobs import logprobs
from edgellm.sampling.penalties import penalties
from edgellm.types import SamplingParams

__all__ = [
    "PIPELINE",
    "greedy",
    "logprobs",
    "sample",
]

Sampler = Callable[[Candidates, SamplingParams], Candidates]

PIPELINE: tuple[Sampler, ...] = (top_k, top_p, min_p, temperature)


def sample(
    logits: Float32,
    params: SamplingParams,
    history: Sequence[int],
    *,
    seed: int,
    sample_index: int,
) -> int:
    """The next token id for logits (vocab_size,); `history` is every token so far.

    The draw depends only on (seed, sample_index, len(history)). Equal logits: the lowest id wins.
    """
    logits = penalties(logits, params, history)
    best = greedy(logits)
    if params.temperature <= 0.0:
        return best
    candidates = Candidates(logits)
    for sampler in PIPELINE:
        candidates = sampler(candidates, params)
    mass = np.cumsum(candidates.probabilities())
    draw = uniform(seed, sample_index, len(history)) * mass[-1]
    place = int(np.searchsorted(mass, draw, side="right"))
    return candidates.token(min(place, len(mass) - 1))


def greedy(logits: Float32) -> int:
    """The most likely token id; the lowest of equals."""
    best = int(logits.argmax())  # a NaN, if there is one, comes out here
    if not np.isfinite(logits[best]):
        raise EdgeLLMError(f"the largest logit is {logits[best]}: the model file may be damaged")
    return best
