"""Perplexity of a text: how surprised a model is, on average, by each next token.

llama.cpp's way, so that figures compare: the text is tokenised once and cut into chunks of the
context's length; the second half of each chunk is scored, so that every token has half a context
before it; what is left at the end is not used. The first token of a chunk is replaced by BOS where
the tokenizer adds one. Knows nothing of engines beyond Model.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgellm.errors import RequestError
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
    if context < 4:
        raise RequestError(f"a context of {context} tokens: at least 4 are needed", "context")
    if max_chunks is not None and max_chunks < 1:
        raise RequestError(f"{max_chunks} chunks: at least 1 is needed", "chunks")
    ids = model.tokenize(text)
    chunks = len(ids) // context
    if not chunks:
        raise RequestError(
            f"the text has {len(ids)} tokens and one chunk takes {context}: "
            "give a longer text or a smaller context",
            "context",
        )
    chunks = min(chunks, max_chunks or chunks)
    bos = model.bos_id
    losses: list[float] = []
    for index in range(chunks):
        chunk = ids[index * context : (index + 1) * context]
        if bos is not None:
            chunk[0] = bos
        losses += _losses(model, chunk)
        if watch:
            watch(index + 1, chunks, _summary(losses)[0])
    value, error = _summary(losses)
    return Perplexity(value, error, len(losses), chunks, context)


def _losses(model: Model, chunk: list[int]) -> list[float]:
    """Minus log-probabilities of the tokens of the second half but its first."""
    losses: list[float] = []

    def score(position: int, rows: npt.NDArray[np.float32]) -> None:
        for offset, row in enumerate(rows, position + 1):
            losses.append(-logprobs(row, chunk[offset], 0)[0])

    model.score(chunk[:-1], score, start=len(chunk) // 2)
    return losses


def _summary(losses: list[float]) -> tuple[float, float]:
    """Perplexity and its standard error."""
    every = np.array(losses)
    value = math.exp(every.mean())
    spread = every.std(ddof=1) / math.sqrt(len(every)) if len(every) > 1 else 0.0
    return value, value * float(spread)
