"""The last of the samplers: one candidate is drawn. Some remember what was drawn before.

Each takes the candidates, the Step and the memory, and returns the token and the memory for the
next one.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from edgellm.sampling.candidates import Candidates, Float32, best
from edgellm.sampling.mass import at_least, draw, mass, probabilities
from edgellm.sampling.step import Step
from edgellm.sampling_params import SamplingParams

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


def plain(candidates: Candidates, step: Step, memory: Memory) -> tuple[int, Memory]:
    """Drawn by its probability."""
    return candidates.token(draw(candidates.logits, step.uniform())), memory


def adaptive_p(candidates: Candidates, step: Step, memory: Memory) -> tuple[int, Memory]:
    """Drawn so that the probabilities of what is chosen come to the target on average.

    Source: llama.cpp, pull request 17927.
    """
    params, logits = step.params, candidates.logits
    aim = min(1.0, max(0.0, 2.0 * params.adaptive_target - memory.sum / memory.weight))
    curve = np.concatenate([_curve(likely, aim) for likely in probabilities(logits)])
    place = draw(curve, step.uniform())
    chosen = float(np.exp(logits[place] - logits.max())) / mass(logits)
    decay = params.adaptive_decay
    memory = replace(memory, sum=chosen + decay * memory.sum, weight=1.0 + decay * memory.weight)
    return candidates.token(place), memory


def _curve(likely: Float32, aim: float) -> Float32:
    """Logits by how near probabilities are to the aim; what cannot be drawn still cannot."""
    distances = np.abs(likely - np.float32(aim))
    distances /= np.float32(_WIDTH)
    curve: Float32 = distances * distances
    distances += 1.0
    curve /= distances
    curve *= -_SHARPNESS
    curve += _PEAK
    curve[likely == 0] = -np.inf
    return curve


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
    least = 2.0 ** -min(max(memory.mu, -1.0), 126.0)
    places = at_least(candidates.logits, least)
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
    place = draw(kept.logits, step.uniform())
    surprise = -math.log2(float(kept.probabilities()[place]))
    params = step.params
    mu = memory.mu - params.mirostat_eta * (surprise - params.mirostat_tau)
    return kept.token(place), replace(memory, mu=mu)
