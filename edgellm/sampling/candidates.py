"""The tokens that may still be drawn, and their logits. Knows nothing of how they are chosen."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Ids = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Candidates:
    """token_ids (n,) and their logits (n,).

    is_sorted: best first, equal logits by ascending id. Otherwise by ascending id.
    """

    token_ids: Ids
    logits: Float32
    is_sorted: bool = False

    def keep(self, count: int) -> "Candidates":
        """The first `count`."""
        return Candidates(self.token_ids[:count], self.logits[:count], self.is_sorted)

    def probabilities(self) -> Float64:
        """Softmax over the candidates, (n,)."""
        weights = np.exp(self.logits.astype(np.float64) - float(self.logits.max()))
        return np.asarray(weights / weights.sum())


def best(candidates: Candidates, count: int) -> Candidates:
    """The `count` largest logits, sorted; equal ones by ascending id."""
    if candidates.is_sorted:
        return candidates.keep(count)
    ids, logits = candidates.token_ids, candidates.logits
    if count < len(ids):
        threshold = np.partition(logits, -count)[-count]
        # All that tie with the last one: the sort below then keeps the lowest ids.
        kept = np.flatnonzero(logits >= threshold)
        ids, logits = ids[kept], logits[kept]
    order = np.argsort(-logits, kind="stable")[:count]
    return Candidates(ids[order], logits[order], is_sorted=True)
