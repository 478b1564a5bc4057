"""Perplexity of a text: how surprised a model is, on average, by each next token.

Each chunk of the text is scored by itself. Knows nothing of engines beyond Model.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgellm.eval.chunks import cut, scored_from
from edgellm.llm import Model
from edgellm.sampling import logprobs


@dataclass(frozen=True)
class Perplexity:
    """perplexity: exp of the mean surprise. error: its standard error. tokens: how many scored."""

    perplexity: float
    error: float
    tokens: int
    chunks: int
    context: int


def perplexity(
    model: Model,
    text: str,
    context: int,
    max_chunks: int | None = None,
    watch: Callable[[int, int, float], None] | None = None,
) -> Perplexity:
    """Scores `text` in chunks of `context` tokens.

    watch: called after each chunk with (chunks done, chunks in all, perplexity so far).
    RequestError when the text does not fill one chunk.
    """
    chunks = cut(model.tokenize(text), model.bos_id, context, max_chunks)
    losses: list[float] = []
    for done, chunk in enumerate(chunks, 1):
        losses += _losses(model, chunk)
        if watch:
            watch(done, len(chunks), summary(losses)[0])
    value, error = summary(losses)
    return Perplexity(value, error, len(losses), len(chunks), context)


def _losses(model: Model, chunk: list[int]) -> list[float]:
    """Minus log-probabilities of the tokens of the second half but its first."""
    losses: list[float] = []

    def score(position: int, rows: npt.NDArray[np.float32]) -> None:
        for offset, row in enumerate(rows, position + 1):
            losses.append(-logprobs(row, chunk[offset], 0)[0])

    model.score(chunk[:-1], score, start=scored_from(chunk))
    return losses


def summary(losses: list[float]) -> tuple[float, float]:
    """Perplexity and its standard error, of minus the log-probabilities of a text's tokens."""
    every = np.array(losses)
    value = math.exp(every.mean())
    spread = every.std(ddof=1) / math.sqrt(len(every)) if len(every) > 1 else 0.0
    return value, value * float(spread)
