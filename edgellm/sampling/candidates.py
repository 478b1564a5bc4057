"""The tokens that may still be drawn, and their logits. Knows nothing of how they are chosen."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.intp]

_GROUP = 64  # logits looked at together when the best of many are sought


@dataclass(frozen=True, eq=False)
class Candidates:
    """Logits (n,) and the token ids (n,) they belong to; None: every token, in order.

    is_sorted: best first, equal logits by ascending id. Otherwise by ascending id.
    """

    logits: Float32
    token_ids: Ids | None = None
    is_sorted: bool = False

    def __len__(self) -> int:
        return len(self.logits)

    def take(self, places: Ids, is_sorted: bool) -> "Candidates":
        """Those at `places`, in that order."""
        ids = places if self.token_ids is None else self.token_ids[places]
        return Candidates(self.logits[places], ids, is_sorted)

    def token(self, place: int) -> int:
        """The id of the token at `place`."""
        return place if self.token_ids is None else int(self.token_ids[place])

    def weights(self) -> Float32:
        """Probabilities (n,) as multiples of the best one's."""
        weights: Float32 = self.logits - self.logits.max()
        np.exp(weights, out=weights)
        return weights

    def probabilities(self) -> Float32:
        """Softmax over the candidates, (n,)."""
        weights = self.weights()
        weights /= np.float32(weights.sum(dtype=np.float64))
        return weights

    def find(self, token_ids: Ids) -> tuple["Candidates", Ids, Ids]:
        """These candidates by ascending id, and where of `token_ids` (ascending) any are found.

        The places in the candidates, and the places in `token_ids`, pair by pair.
        """
        if self.token_ids is None:
            return self, token_ids, np.arange(len(token_ids))
        ordered = self.take(np.argsort(self.token_ids), is_sorted=False) if self.is_sorted else self
        own = ordered.token_ids
        assert own is not None
        places = np.minimum(np.searchsorted(own, token_ids), len(own) - 1)
        found = np.flatnonzero(own[places] == token_ids)
        return ordered, places[found], found


def best(candidates: Candidates, count: int) -> Candidates:
    """The `count` (at least 1) largest logits, sorted; equal ones by ascending id."""
    logits = candidates.logits
    count = min(count, len(logits))
    if candidates.is_sorted:
        return candidates.take(np.arange(count), is_sorted=True)
    places = np.arange(len(logits)) if count == len(logits) else _contenders(logits, count)
    order = np.argsort(-logits[places], kind="stable")[:count]
    return candidates.take(places[order], is_sorted=True)


def _contenders(logits: Float32, count: int) -> Ids:
    """Ascending places of the `count` largest and of all that tie with the last of them."""
    places = None
    if len(logits) >= count * _GROUP:
        # The best of each group, one of every n-th: `count` logits at least reach this threshold.
        even = logits[: len(logits) - len(logits) % _GROUP]
        threshold = _largest(even.reshape(_GROUP, -1).max(axis=0), count)
        if threshold == -np.inf:
            return _few_allowed(logits, count)
        places = np.flatnonzero(logits >= threshold)
        logits = logits[places]
    kept = np.flatnonzero(logits >= _largest(logits, count))
    return kept if places is None else places[kept]


def _few_allowed(logits: Float32, count: int) -> Ids:
    """The same where perhaps fewer than `count` are finite: the first banned ones fill them up."""
    allowed = np.flatnonzero(logits > -np.inf)
    banned = np.flatnonzero(logits[: count + len(allowed)] == -np.inf)
    return np.sort(np.concatenate([allowed, banned[: max(0, count - len(allowed))]]))


def _largest(values: Float32, count: int) -> float:
    """The count-th largest."""
    return float(np.partition(values, -count)[-count])
