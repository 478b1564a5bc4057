"""Texts made ready to be embedded or ranked, and the wait for what becomes of them.

Runs in the caller's thread. Knows nothing of steps.
"""

import queue
import threading
from collections.abc import Sequence as Seq
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from edgellm.errors import ContextOverflow, EdgeLLMError, RequestError
from edgellm.loaded_model import LoadedModel
from edgellm.pooling import Pooler, row_pooling
from edgellm.sequence import Sequence
from edgellm.types import POOLINGS, Pooling, SamplingParams

Rows = npt.NDArray[np.float32]

_LOOK_SECONDS = 0.05  # between two looks at whether anybody waits


@dataclass(frozen=True, eq=False)
class Pooled:
    """rows: float32 (1, width), or with pooling "none" (num_tokens, width)."""

    num_tokens: int
    rows: Rows


@dataclass(frozen=True)
class Text:
    """ids: of a text, or of two. second: where the tokens of the second text begin, if they are of
    another type.
    """

    ids: list[int]
    second: int | None = None


class PoolingWork:
    """One pooler for each text, to be added to the model's engine, and the wait for all of them.

    RequestError for a text without tokens.
    """

    def __init__(
        self, model: LoadedModel, texts: Seq[Text], pooling: Pooling, request_id: str
    ) -> None:
        for number, text in enumerate(texts, 1):
            if not text.ids:
                raise RequestError(f"text {number} of {len(texts)} is empty: no tokens", "prompt")
        self._results: queue.SimpleQueue[tuple[int, Rows | Exception]] = queue.SimpleQueue()
        wants_last = row_pooling(pooling, model.head) == "last"
        self.poolers = [
            Pooler(
                request_id,
                _sequence(model, text, wants_last),
                pooling,
                model.head,
                partial(self._done, number),
            )
            for number, text in enumerate(texts)
        ]

    def wait(self, given_up: threading.Event | None = None) -> list[Pooled]:
        """What each became, in order; raises the first error, or one when `given_up` is set."""
        found: dict[int, Rows] = {}
        while len(found) < len(self.poolers):
            number, result = self._next(given_up)
            if isinstance(result, Exception):
                raise result
            found[number] = result
        lengths = (len(pooler.sequence.token_ids) for pooler in self.poolers)
        return [Pooled(length, found[i]) for i, length in enumerate(lengths)]

    def _next(self, given_up: threading.Event | None) -> tuple[int, Rows | Exception]:
        if given_up is None:
            return self._results.get()
        while not given_up.is_set():
            with suppress(queue.Empty):
                return self._results.get(timeout=_LOOK_SECONDS)
        raise EdgeLLMError("nobody waits for the embeddings any more")

    def _done(self, number: int, result: Rows | Exception) -> None:
        self._results.put((number, result))


def _sequence(model: LoadedModel, text: Text, wants_last: bool) -> Sequence:
    ids, scales = text.ids, model.info.adapter_scales
    starts = (0,) * len(scales)
    if text.second is not None and model.head.tells_types:
        scales, starts = (*scales, 1.0), (*starts, text.second)
    return Sequence(
        ids,
        len(ids),
        SamplingParams(),
        score_from=max(0, len(ids) - 1) if wants_last else 0,
        wants_hidden=True,
        adapter_scales=scales,
        adapter_starts=starts,
    )


def checked_pooling(model: LoadedModel, pooling: str | None) -> Pooling:
    """The pooling asked for, or the model's own. RequestError when it has none such."""
    wanted = model.info.pooling if pooling is None else pooling
    chosen = next((kind for kind in POOLINGS if kind == wanted), None)
    if chosen is None:
        known = ", ".join(POOLINGS)
        raise RequestError(f"pooling is {pooling!r}; expected one of {known}", "pooling")
    if chosen == "rank" and not model.head.can_rank:
        raise RequestError(
            f"{model.info.name} has no classifier that ranks (cls tensors): load a reranker",
            "pooling",
        )
    return chosen


def one_text(model: LoadedModel, prompt: str | Seq[int], truncate: bool = False) -> Text:
    """A text as tokens. truncate: a longer one is cut before the token that ends it."""
    tokenizer, most = model.tokenizer, model.info.context_length
    if not isinstance(prompt, str):
        ids = list(prompt)
    elif truncate:
        ids = tokenizer.encode(model.beginning(prompt))
    else:
        model.refuse_long(prompt)
        ids = tokenizer.encode(prompt)
    if len(ids) <= most:
        return Text(ids)
    if not truncate:
        raise ContextOverflow(len(ids), most)
    ends = list(tokenizer.ends) if isinstance(prompt, str) else []
    return Text(ids[: most - len(ends)] + ends)


def two_texts(model: LoadedModel, query: str, document: str) -> Text:
    """A query and a document as the model was trained to see them.

    By the file's own template, or with the tokens that end a text between and behind them.
    """
    tokenizer, template = model.tokenizer, model.rerank_template
    for text in (query, document):
        model.refuse_long(text)
    if template is not None:
        both = Text(tokenizer.encode(_filled(template, query, document), add_special=False))
    else:
        both = Text(*tokenizer.encode_pair(query, document))
    if len(both.ids) > model.info.context_length:
        raise ContextOverflow(len(both.ids), model.info.context_length)
    return both


def _filled(template: str, query: str, document: str) -> str:
    """One pass, so that a query that says "{document}" stays what it is."""
    parts = template.split("{query}")
    return query.join(part.replace("{document}", document) for part in parts)
