"""Sums over long rows of logits, a tile at a time: nothing as long as a row is allocated for them.

A token's weight is exp(its logit - the best one): its probability as a multiple of the best one's.
Knows nothing of samplers.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Ids = npt.NDArray[np.intp]

_BLOCK = 512  # weights summed together
_TILE = 32 * _BLOCK  # fits a processor's nearest cache
_LOWEST = np.float32(-200.0)  # from the best: whose weight is 0, and times which it stays so
_FEW = 1024  # sorting so many is cheap
_MANY = 16384  # and so many no dearer than another way
_NEAR = (6.0, 12.0)  # nats within which a share of the weight often lies
_MARGIN = 1e-3  # nats, more than rounding can move a logit by
_SOME = 1e-300  # of weight: the least that is ever wanted, so that one token is
_BINS_PER_NAT = 32
_BINS = 1024  # 32 nats: what is further away weighs nothing


def _tiles(row: Float32) -> Iterator[Float32]:
    return (row[start : start + _TILE] for start in range(0, len(row), _TILE))


def _in_blocks(values: Float32) -> tuple[Float32, Float32]:
    """(blocks, _BLOCK), and what is left at the end."""
    whole = len(values) - len(values) % _BLOCK
    return values[:whole].reshape(-1, _BLOCK), values[whole:]


def _block_sums(values: Float32) -> Float64:
    """Sums of every _BLOCK values, each in float32: several sums side by side, which lose about a
    millionth of what is positive and take a third of the time of float64."""
    blocks, rest = _in_blocks(values)
    sums = np.einsum("bi->b", blocks).astype(np.float64)
    return np.append(sums, rest.sum()) if len(rest) else sums


def _sum(values: Float32) -> float:
    return float(_block_sums(values).sum())


def _sum_of_squares(values: Float32) -> float:
    blocks, rest = _in_blocks(values)
    sums = np.einsum("bi,bi->b", blocks, blocks)
    return float(sums.sum(dtype=np.float64)) + float((rest * rest).sum())


def _block_masses(logits: Float32) -> Float64:
    """Sums of every _BLOCK weights."""
    best = logits.max()
    return np.concatenate([_block_sums(np.exp(tile - best)) for tile in _tiles(logits)])


def mass(logits: Float32) -> float:
    """The sum of all weights."""
    return float(_block_masses(logits).sum())


def mass_and_mean(logits: Float32) -> tuple[float, float]:
    """The sum of all weights; how far logits lie from the best one, each counted by its
    probability, 0 or below."""
    best, total, moment = logits.max(), 0.0, 0.0
    for tile in _tiles(logits):
        distances = tile - best
        np.maximum(distances, _LOWEST, out=distances)
        weights = np.exp(distances)
        total += _sum(weights)
        weights *= distances
        moment += _sum(weights)
    return total, moment / total


def entropy(logits: Float32) -> float:
    """Of the distribution, in nats."""
    total, mean = mass_and_mean(logits)
    return float(np.log(total)) - mean


def probabilities(logits: Float32) -> Iterator[Float32]:
    """Softmax, some tokens after others."""
    best, total = logits.max(), np.float32(mass(logits))
    return (np.exp(tile - best) / total for tile in _tiles(logits))


def deviation(logits: Float32) -> float:
    """The standard deviation of the logits that are finite."""
    finite = logits if np.isfinite(logits.min()) else logits[np.isfinite(logits)]
    mean = np.float32(_sum(finite) / len(finite))
    squares = sum(_sum_of_squares(tile - mean) for tile in _tiles(finite))
    return float(np.sqrt(squares / len(finite)))


def draw(logits: Float32, share: float) -> int:
    """The place at which the running sum of weights passes `share`, in [0, 1), of the whole.

    Blocks first, so that only one of them is summed entry by entry. A weight of 0 is never drawn.
    """
    masses = np.cumsum(_block_masses(logits))
    wanted = share * float(masses[-1])
    block = min(int(np.searchsorted(masses, wanted, side="right")), len(masses) - 1)
    start = block * _BLOCK
    before = float(masses[block - 1]) if block else 0.0
    weights = np.exp(logits[start : start + _BLOCK] - logits.max())
    inside = before + np.cumsum(weights, dtype=np.float64)
    place = int(np.searchsorted(inside, wanted, side="right"))
    # Rounding may make a block's sum differ a little from what its entries come to.
    drawn = np.flatnonzero(weights)
    return start + min(place, int(drawn[-1])) if len(drawn) else int(logits.argmax())


def at_least(logits: Float32, probability: float) -> Ids:
    """Ascending places of the tokens that are at least so likely."""
    best, total = logits.max(), mass(logits)
    with np.errstate(divide="ignore"):
        places = np.flatnonzero(logits >= best + np.float32(np.log(probability * total) - _MARGIN))
    exact = np.exp(logits[places] - best) / np.float32(total)
    return np.compress(exact >= np.float32(probability), places)


def nearest(
    logits: Float32, aim: float, share: float, least: int, total: float | None = None
) -> Ids:
    """Ascending places of the fewest tokens that hold `share` of the weight, those first whose
    logit is nearest to the best one + aim, equal ones by place; but at least `least`, or all.

    total: all weight, where it is known already."""
    best = logits.max()
    centre = best + np.float32(aim)
    places = _holding(logits, best, centre, share, mass(logits) if total is None else total)
    least = min(least, len(logits))
    return places if len(places) >= least else _closest(np.abs(logits - centre), least)


def _holding(
    logits: Float32, best: np.float32, centre: np.float32, share: float, total: float
) -> Ids:
    """Most often they lie near enough to be found at once. Else a histogram of the distances finds
    the bin in which the share is reached, and only what lies in that bin is put in order."""
    wanted = share * total
    if len(logits) <= _FEW:
        return np.sort(_first(logits, np.arange(len(logits)), best, centre, wanted)[0])
    for reach in map(np.float32, _NEAR):
        near = np.flatnonzero((logits >= centre - reach) & (logits <= centre + reach))
        if len(near) > _MANY:
            break
        if len(near):
            places, held = _first(logits, near, best, centre, wanted)
            if held >= wanted and abs(logits[places[-1]] - centre) < reach - _MARGIN:
                return np.sort(places)
    return _by_histogram(logits, best, centre, share)


def _first(
    logits: Float32, places: Ids, best: np.float32, centre: np.float32, wanted: float
) -> tuple[Ids, float]:
    """Of these places the fewest that hold what is wanted, or all, in order; what they hold."""
    order = places[np.argsort(np.abs(logits[places] - centre), kind="stable")]
    masses = np.cumsum(np.exp(logits[order] - best), dtype=np.float64)
    count = min(int(np.searchsorted(masses, wanted)) + 1, len(order))
    return order[:count], float(masses[count - 1])


def _by_histogram(logits: Float32, best: np.float32, centre: np.float32, share: float) -> Ids:
    per_bin = np.zeros(_BINS)
    for tile in _tiles(logits):
        bins = _bins(tile, centre).astype(np.intp)
        per_bin += np.bincount(bins, np.exp(tile - best), _BINS)
    masses = np.cumsum(per_bin)
    wanted = max(share * float(masses[-1]), _SOME)
    edge = min(int(np.searchsorted(masses, wanted)), _BINS - 1)
    numbers = _bins(logits, centre)
    kept = numbers < edge
    inside = np.flatnonzero((numbers >= edge) & (numbers < edge + 1))
    before = float(masses[edge - 1]) if edge else 0.0
    kept[_first(logits, inside, best, centre, wanted - before)[0]] = True
    return np.flatnonzero(kept)


def _bins(logits: Float32, centre: np.float32) -> Float32:
    """Of which the whole part is the number of a bin."""
    bins = logits - centre
    np.abs(bins, out=bins)
    bins *= _BINS_PER_NAT
    np.minimum(bins, np.float32(_BINS - 1), out=bins)
    return bins


def _closest(distances: Float32, count: int) -> Ids:
    """Ascending places of the `count` smallest, equal ones by place."""
    places = np.flatnonzero(distances <= np.partition(distances, count - 1)[count - 1])
    return np.sort(places[np.argsort(distances[places], kind="stable")[:count]])
