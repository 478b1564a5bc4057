"""The last of the samplers: one candidate is drawn. Some remember what was drawn before.

Each takes the candidates, the Step and the memory, and returns the token and the memory for the
next one.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from edgellm.sampling.candidates import Candidates, Float32, best
from edgellm.sampling.step import Step
from edgellm.sampling_params import SamplingParams

_BLOCK = 512
_MIROSTAT_TOKENS = 100  # of which Zipf's exponent is estimated
# adaptive-p's curve: logits from 5 at the target down, steeper than linear within 0.3 of it.
_PEAK, _SHARPNESS, _WIDTH = 5.0, 10.0, 0.3


@dataclass(frozen=True)
class Memory:
    """mu: mirostat's limit of surprise, bits. sum, weight: adaptive-p's moving average of the
    probabilities of what was chosen is sum / weight."""

    mu: float
    sum: float
    weight: float


def fresh(params: SamplingParams) -> Memory:
    """The memory before the first token."""
    past = 1.0 / (1.0 - params.adaptive_decay)  # tokens that the average covers
    return Memory(2.0 * params.mirostat_tau, params.adaptive_target * past, past)


def draw(weights: Float32, share: float) -> int:
    """The place at which the running sum of weights (n,) passes `share`, in [0, 1), of the whole.

    Blocks first, so that only one of them is summed entry by entry. A weight of 0 is never drawn.
    """
    starts = np.arange(0, len(weights), _BLOCK)
    mass = np.cumsum(np.add.reduceat(weights, starts, dtype=np.float64))
    wanted = share * float(mass[-1])
    block = min(int(np.searchsorted(mass, wanted, side="right")), len(mass) - 1)
    start = block * _BLOCK
    before = float(mass[block - 1]) if block else 0.0
    inside = before + np.cumsum(weights[start : start + _BLOCK], dtype=np.float64)
    place = start + int(np.searchsorted(inside, wanted, side="right"))
    # Rounding may leave the sum of a block short of what its entries come to.
    return place if place < len(weights) and weights[place] > 0 else int(weights.argmax())


def plain(candidates: Candidates, step: Step, memory: Memory) -> tuple[int, Memory]:
    """Drawn by its probability."""
    return candidates.token(draw(candidates.weights(), step.uniform())), memory


def adaptive_p(candidates: Candidates, step: Step, memory: Memory) -> tuple[int, Memory]:
    """Drawn so that the probabilities of what is chosen come to the target on average.

    Source: llama.cpp, pull request 17927.
    """
    params = step.params
    probabilities = candidates.probabilities()
    aim = min(1.0, max(0.0, 2.0 * params.adaptive_target - memory.sum / memory.weight))
    distances = np.abs(probabilities - np.float32(aim)) / np.float32(_WIDTH)
    curve = _PEAK - _SHARPNESS * distances * distances / (1.0 + distances)
    curve = np.where(probabilities > 0, curve, -np.inf).astype(np.float32)
    place = draw(Candidates(curve).weights(), step.uniform())
    chosen, decay = float(probabilities[place]), params.adaptive_decay
    memory = replace(memory, sum=chosen + decay * memory.sum, weight=1.0 + decay * memory.weight)
    return candidates.token(place), memory


def mirostat(candidates: Candidates, step: Step, memory: Memory) -> tuple[int, Memory]:
    """Drawn from the k best, with k such that the surprise comes to tau bits on average.

    Source: Basu et al. 2021, "Mirostat: a neural text decoding algorithm that directly controls
    perplexity", algorithm 1; k and Zipf's exponent are estimated as there.
    """
    head = best(candidates, _MIROSTAT_TOKENS).probabilities().astype(np.float64)
    head = head[head > 0]
    ranks = np.arange(1, len(head))
    steps, falls = np.log((ranks + 1) / ranks), np.log(head[:-1] / head[1:])
    exponent = float((steps * falls).sum() / (steps * steps).sum()) if len(head) > 1 else 1.0
    kept = best(candidates, _mirostat_k(exponent, memory.mu, len(candidates)))
    return _draw_surprise(kept, step, memory)


def mirostat_v2(candidates: Candidates, step: Step, memory: Memory) -> tuple[int, Memory]:
    """Drawn from those whose surprise is at most mu bits. Source: as mirostat, algorithm 2."""
    least = np.float32(2.0 ** -min(max(memory.mu, -1.0), 126.0))
    places = np.flatnonzero(candidates.probabilities() >= least)
    kept = candidates.take(places, candidates.is_sorted) if len(places) else best(candidates, 1)
    return _draw_surprise(kept, step, memory)


def _mirostat_k(exponent: float, mu: float, count: int) -> int:
    """((e * 2^mu) / (1 - count^-e))^(1 / exponent) with e = exponent - 1, from 1 to count."""
    if exponent <= 0.0 or count == 1:
        return count
    e = exponent - 1.0
    log_count = math.log(count)
    log_ratio = math.log(e / -math.expm1(-e * log_count)) if e else -math.log(log_count)
    log_k = (log_ratio + mu * math.log(2.0)) / exponent
    return max(1, int(math.exp(min(log_k, log_count))))


def _draw_surprise(kept: Candidates, step: Step, memory: Memory) -> tuple[int, Memory]:
    """Draws one, and moves mu by eta times how far its surprise is from tau."""
    probabilities = kept.probabilities()
    place = draw(probabilities, step.uniform())
    surprise = -math.log2(float(probabilities[place]))
    params = step.params
    mu = memory.mu - params.mirostat_eta * (surprise - params.mirostat_tau)
    return kept.token(place), replace(memory, mu=mu)
