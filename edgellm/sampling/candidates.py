"""The tokens that may still be drawn, and their logits. Knows nothing of how they are chosen."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Ids = npt.NDArray[np.intp]

_GROUP = 64  # logits looked at together when the best of many are sought
_FEW = 1024  # sorting so many is cheap
_BINS_PER_NAT = 32
_BINS = 1024  # 32 nats: what is further away weighs nothing


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
        return np.asarray(np.exp(self.logits - self.logits.max()), np.float32)

    def probabilities(self) -> Float32:
        """Softmax over the candidates, (n,)."""
        weights = self.weights()
        return np.asarray(weights / np.float32(weights.sum(dtype=np.float64)))

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


def fewest(keys: Float32, weights: Float32, share: float, least: int) -> Ids:
    """Ascending places of the fewest, smallest keys (0 or more) first, that hold `share` of the
    weight, but at least `least` of them; equal keys by ascending place.

    Many are not sorted: a histogram of the keys finds the bin in which the share is reached, and
    only what lies in that bin is put in order.
    """
    if len(keys) <= _FEW:
        order = np.argsort(keys, kind="stable")
        return np.sort(order[: max(_reached(weights[order], 0.0, share * _sum(weights)), least)])
    bins = np.minimum(keys * np.float32(_BINS_PER_NAT), np.float32(_BINS - 1)).astype(np.int32)
    mass = np.cumsum(np.bincount(bins, weights, _BINS))
    wanted = share * float(mass[-1])
    edge = min(int(np.searchsorted(mass, wanted)), _BINS - 1)
    kept = bins < edge
    inside = np.flatnonzero(bins == edge)
    inside = inside[np.argsort(keys[inside], kind="stable")]
    before = float(mass[edge - 1]) if edge else 0.0
    kept[inside[: _reached(weights[inside], before, wanted)]] = True
    places = np.flatnonzero(kept)
    return places if len(places) >= least else np.sort(_first(keys, least))


def _first(keys: Float32, count: int) -> Ids:
    """Places of the `count` smallest keys, in order."""
    ids = best(Candidates(-keys), count).token_ids
    assert ids is not None
    return ids


def _reached(weights: Float32, before: float, wanted: float) -> int:
    """How many of the weights, in order, bring `before` up to `wanted`; at least one if any."""
    mass = before + np.cumsum(weights, dtype=np.float64)
    return min(int(np.searchsorted(mass, wanted)) + 1, len(mass))


def _sum(weights: Float32) -> float:
    return float(weights.sum(dtype=np.float64))


def _contenders(logits: Float32, count: int) -> Ids:
    """Ascending places of the `count` largest and of all that tie with the last of them."""
    places = None
    if len(logits) >= count * _GROUP:
        # The best of each group, one of every n-th: `count` logits at least reach this threshold.
        even = logits[: len(logits) - len(logits) % _GROUP]
        threshold = _largest(even.reshape(_GROUP, -1).max(axis=0), count)
        places = np.flatnonzero(logits >= threshold)
        logits = logits[places]
    kept = np.flatnonzero(logits >= _largest(logits, count))
    return kept if places is None else places[kept]


def _largest(values: Float32, count: int) -> float:
    """The count-th largest."""
    return float(np.partition(values, -count)[-count])
