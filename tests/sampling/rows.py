"""Rows of logits to test samplers with, and plain definitions of what is done with them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edgellm.sampling.candidates import Candidates, Float32, best
from edgellm.sampling.step import Step
from edgellm.sampling_params import SamplingParams

# Few distinct values, so that ties are common.
LOGITS = arrays(
    np.float32,
    st.integers(1, 60),
    elements=st.sampled_from([-9.0, -2.5, -1.0, 0.0, 0.5, 1.0, 3.25, 8.0]),
)

# Many in every shape: flat, steep, with equal values, with banned ones.
LONG = st.builds(
    lambda size, seed, scale, decimals, banned: _long(size, seed, scale, decimals, banned),
    st.integers(1, 6000),
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.1, 1.0, 4.0, 30.0]),
    st.integers(0, 6),
    st.booleans(),
)


def _long(size: int, seed: int, scale: float, decimals: int, banned: bool) -> Float32:
    rng = np.random.default_rng(seed)
    row = np.round(rng.normal(size=size) * scale, decimals).astype(np.float32)
    if banned:
        row[rng.random(size) < 0.5] = -np.inf
        row[rng.integers(size)] = 1.0
    return row


class Words:
    """A vocabulary of given pieces."""

    def __init__(self, pieces: Sequence[bytes] = (), eog_ids: Sequence[int] = ()) -> None:
        self.pieces = pieces
        self.eog_ids = frozenset(eog_ids)

    def token_bytes(self, token_id: int) -> bytes:
        return self.pieces[token_id] if self.pieces else b"word "


def step(
    history: Sequence[int] = (), vocabulary: Words | None = None, seed: int = 0, **params: Any
) -> Step:
    return Step(SamplingParams(**params), history, vocabulary or Words(), seed)


def ids(candidates: Candidates) -> list[int]:
    return [candidates.token(place) for place in range(len(candidates))]


def forms(logits: Float32) -> tuple[Candidates, ...]:
    """The same candidates in the three forms that samplers meet."""
    whole = Candidates(logits)
    return whole, best(whole, len(logits)), whole.take(np.arange(len(logits)), is_sorted=False)


def ranking(logits: Float32) -> list[int]:
    return sorted(range(len(logits)), key=lambda i: (-logits[i], i))


def softmax(logits: Float32) -> list[float]:
    best = float(max(logits))
    weights = [math.exp(float(x) - best) for x in logits]
    total = math.fsum(weights)
    return [w / total for w in weights]
