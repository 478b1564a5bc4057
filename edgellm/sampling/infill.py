"""Infill: fill-in-the-middle ends early rather than write on. Source: llama.cpp.

Knows nothing of the other samplers; top_k and top_p should come before it.
"""

import numpy as np

from edgellm.sampling.candidates import Candidates, best
from edgellm.sampling.step import Step

_MOST = 256  # candidates looked at: each is compared with each
_LEAST = 0.2  # probability of a text that is written on


def infill(candidates: Candidates, step: Step) -> Candidates:
    """The end tokens alone where they are likely, or where no text is likely enough.

    They are likely when together, times three and the number of candidates, they outweigh the
    text. Else tokens that begin with one another count as one, the likeliest of them, and those
    stay that reach 0.2 and then an even share; the end tokens stay in any case.
    """
    head = best(candidates, _MOST)
    ids = [head.token(place) for place in range(len(head))]
    weights = head.probabilities().astype(np.float64)
    is_end = np.array([token in step.vocabulary.eog_ids for token in ids])
    if 3.0 * weights[is_end].sum() * len(ids) > weights[~is_end].sum():
        return head.take(np.flatnonzero(is_end), is_sorted=True)
    _merge(
        weights,
        [
            b"" if end else step.vocabulary.token_bytes(token)
            for token, end in zip(ids, is_end, strict=True)
        ],
    )
    likely = ~is_end & (weights >= _LEAST)
    if not likely.any():
        return _end(head, step)
    weights /= weights[likely | is_end].sum()
    kept = np.flatnonzero(is_end | (likely & (weights >= 1.0 / (likely.sum() + 1))))
    with np.errstate(divide="ignore"):
        logits = np.log(weights[kept]).astype(np.float32)
    by_id = np.argsort(np.array(ids)[kept])
    return Candidates(logits[by_id], np.array(ids)[kept][by_id])


def _end(head: Candidates, step: Step) -> Candidates:
    """The end token alone; where the answer may not end, the best one."""
    if step.end is None:
        return best(head, 1)
    return Candidates(np.zeros(1, np.float32), np.array([step.end]))


def _merge(weights: "np.typing.NDArray[np.float64]", pieces: list[bytes]) -> None:
    """Moves the weight of a piece to one that begins with it, or that it begins with, whichever
    weighs more. In place; empty pieces are left alone."""
    for i, piece in enumerate(pieces):
        for j, other in enumerate(pieces):
            if i != j and piece and weights[i] > 0 and weights[j] > 0 and other.startswith(piece):
                into, out = (j, i) if weights[j] > weights[i] else (i, j)
                weights[into] += weights[out]
                weights[out] = 0.0
