"""Requests to a model file, and the answers that each has alone. Holds no tests."""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from edgellm.answers import consumers
from edgellm.backends import Backends
from edgellm.loaded_model import LoadedModel, load_model
from edgellm.types import LoadOptions, Request, TokenEvent, TokenLogprob


@dataclass
class Answer:
    """What its reader has of it. end: why it ended; None: it has not."""

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    end: str | None = None

    def take(self, event: TokenEvent) -> None:
        assert self.end is None, "an event after the last one"
        self.token_ids += event.token_ids
        self.text += event.text
        self.logprobs += event.logprobs or ()
        self.end = event.finish_reason

    def begins(self, other: "Answer") -> bool:
        size = len(self.token_ids)
        return other.token_ids[:size] == self.token_ids and other.text.startswith(self.text)


@dataclass
class Asked:
    """A request and its answers by index. leaves: its reader goes after so many events."""

    request: Request
    leaves: int | None = None
    answers: dict[int, Answer] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    is_cut: bool = False
    _events: Iterator[int] = field(default_factory=count)

    def emit(self, event: TokenEvent | Exception) -> None:
        if isinstance(event, Exception):
            self.errors.append(event)
            return
        self.answers.setdefault(event.index, Answer()).take(event)
        if next(self._events) == self.leaves:
            self.is_cut = True
            raise RuntimeError("the event loop is closed")


@contextmanager
def loaded(path: Path, context_length: int, **options: Any) -> Iterator[LoadedModel]:
    """The model of a file on the cpu backend. options: others of LoadOptions."""
    with ExitStack() as stack:
        backends = Backends(print)
        stack.callback(backends.close)
        sizes = LoadOptions(backend="cpu", threads=1, context_length=context_length, **options)
        model = load_model(path, "tiny", sizes, {}, backends, print)
        stack.callback(model.close)
        stack.callback(model.engine.close)
        yield model


class Alone:
    """Answers requests one by one, a token a step, with nothing cached.

    context_bytes: of the cache, that one context of the model takes.
    """

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        limits, store = model.engine._scheduler.limits, model.engine.store
        groups = range(len(limits.windows))
        self.context_bytes = sum(
            limits.blocks(g, limits.context_length) * store.block_bytes(g) for g in groups
        )
        self._known: dict[str, dict[int, Answer]] = {}

    def answers(self, request: Request) -> dict[int, Answer]:
        key = repr((request.prompt, request.params))
        if key not in self._known:
            asked = Asked(request)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("edgellm.engine.plan_draws", lambda *args: None)
                patch.setattr("edgellm.drafters.speculation._WORTH", math.inf)
                for consumer in consumers(self.model, request, "alone", asked.emit):
                    self.model.engine.clear_cache()
                    self.model.engine.add(consumer)
                    while self.model.engine.has_work:
                        self.model.engine.step()
            assert not asked.errors
            self._known[key] = asked.answers
        return self._known[key]
