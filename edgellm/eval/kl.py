"""How far one model's next-token distributions lie from another's, position by position.

The measure of what a smaller format or another backend loses: the other model's distribution is
taken for the truth, as llama.cpp does, and chunks are those of perplexity. Only a block of rows of
each model is held at a time. Knows nothing of how models are loaded.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from edgellm.errors import BackendError, RequestError
from edgellm.eval.chunks import cut, scored_from
from edgellm.eval.perplexity import summary
from edgellm.eval.rows import Row, rows
from edgellm.llm import Model

_PERCENTILE = 99


@dataclass(frozen=True)
class Divergence:
    """What `divergence` found over the scored positions.

    mean, percentile_99: of the Kullback-Leibler divergence D(other || model), in nats.
    top_agreement: the share of positions, 0 to 1, where both have the same most likely token.
    perplexity, against_perplexity: of the model and of the other one. tokens: how many scored.
    """

    mean: float
    percentile_99: float
    top_agreement: float
    perplexity: float
    against_perplexity: float
    tokens: int
    chunks: int
    context: int


def divergence(
    model: Model,
    against: Model,
    text: str,
    context: int,
    max_chunks: int | None = None,
    watch: Callable[[int, int, float], None] | None = None,
) -> Divergence:
    """Compares `model` with `against` on `text` in chunks of `context` tokens.

    watch: called after each chunk with (chunks done, chunks in all, mean divergence so far).
    RequestError when both are the same object, when the models do not share a vocabulary or the
    text does not fill one chunk; BackendError when logits are not finite numbers.
    """
    if against is model:  # its engine would wait for itself
        raise RequestError("a model compared with itself must be loaded twice", "against")
    chunks = cut(_shared_ids(model, against, text), model.bos_id, context, max_chunks)
    found: list[_Position] = []
    for done, chunk in enumerate(chunks, 1):
        found += _positions(model, against, chunk)
        if watch:
            watch(done, len(chunks), float(np.mean([position.divergence for position in found])))
    divergences = [position.divergence for position in found]
    return Divergence(
        mean=float(np.mean(divergences)),
        percentile_99=float(np.percentile(divergences, _PERCENTILE)),
        top_agreement=float(np.mean([position.same_top for position in found])),
        perplexity=summary([position.loss for position in found])[0],
        against_perplexity=summary([position.against_loss for position in found])[0],
        tokens=len(found),
        chunks=len(chunks),
        context=context,
    )


@dataclass(frozen=True, slots=True)
class _Position:
    """One scored position. Losses are minus the log-probabilities of the text's next token."""

    divergence: float
    same_top: bool
    loss: float
    against_loss: float


def _shared_ids(model: Model, against: Model, text: str) -> list[int]:
    """The text's token ids, which must be the same for both models."""
    sizes = model.info.vocab_size, against.info.vocab_size
    if sizes[0] != sizes[1]:
        raise RequestError(
            f"the models have vocabularies of {sizes[0]} and {sizes[1]} tokens: "
            "only models that share one can be compared",
            "against",
        )
    ids, others = model.tokenize(text), against.tokenize(text)
    if ids != others:
        place = next(i for i, (a, b) in enumerate(zip_longest(ids, others)) if a != b)
        raise RequestError(
            f"the models cut the text into different tokens, from token {place} on: "
            "only models that share a vocabulary can be compared",
            "against",
        )
    if model.bos_id != against.bos_id:
        raise RequestError(
            f"the models begin a text with the tokens {model.bos_id} and {against.bos_id}: "
            "only models that share a vocabulary can be compared",
            "against",
        )
    return ids


def _positions(model: Model, against: Model, chunk: list[int]) -> list[_Position]:
    """The scored positions of one chunk."""
    start = scored_from(chunk)
    with (
        closing(rows(model, chunk[:-1], start)) as ours,
        closing(rows(against, chunk[:-1], start)) as theirs,
    ):
        both = zip(ours, theirs, chunk[start + 1 :], strict=True)
        return [_position(our, their, token) for our, their, token in both]


def _position(ours: Row, theirs: Row, token: int) -> _Position:
    mine, truth = _log_softmax(ours), _log_softmax(theirs)
    gap = float(np.exp(truth) @ (truth - mine))
    return _Position(
        divergence=max(0.0, gap),  # sums of rounded terms may fall below
        same_top=bool(ours.argmax() == theirs.argmax()),
        loss=-float(mine[token]),
        against_loss=-float(truth[token]),
    )


def _log_softmax(row: Row) -> npt.NDArray[np.float64]:
    if not np.isfinite(row).all():  # or the divergence would pass for 0
        raise BackendError(
            "a model's logits hold what is not a number or not finite: the model file or the "
            "backend is broken; the perplexity of each model shows which"
        )
    shifted = row.astype(np.float64) - float(row.max())
    norm = float(np.log(np.exp(shifted).sum()))
    return shifted - norm
