"""Penalties on tokens that the text already has. Knows nothing of the samplers after it."""

from collections.abc import Sequence

import numpy as np

from edgellm.sampling.candidates import Float32
from edgellm.types import SamplingParams


def is_off(params: SamplingParams) -> bool:
    """True when `penalties` would change nothing."""
    return params.repeat_last_n == 0 or (
        params.repeat_penalty == 1.0
        and params.presence_penalty == 0.0
        and params.frequency_penalty == 0.0
    )


def penalties(logits: Float32, params: SamplingParams, history: Sequence[int]) -> Float32:
    """logits (vocab_size,) less what the last `repeat_last_n` tokens of `history` cost.

    repeat_penalty divides a positive logit and multiplies another; then frequency_penalty is
    taken off once per occurrence and presence_penalty once. Source: Keskar et al. 2019 (CTRL)
    for the first, the OpenAI API for the others.
    """
    if is_off(params):
        return logits
    ids, counts = np.unique(np.asarray(history[-params.repeat_last_n :]), return_counts=True)
    changed = logits.copy()
    seen = changed[ids]
    repeat = np.float32(params.repeat_penalty)
    seen = np.where(seen > 0, seen / repeat, seen * repeat)
    seen -= (counts * params.frequency_penalty + params.presence_penalty).astype(np.float32)
    changed[ids] = seen
    return changed
