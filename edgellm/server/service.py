"""What all routes share: the engine's client, the limits, the counts. Knows nothing of HTTP."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgellm import pull
from edgellm.catalog import CatalogEntry, load_catalog
from edgellm.client import LocalClient
from edgellm.errors import CatalogError, NoModel, RequestError
from edgellm.server.failures import Refusal
from edgellm.server.kept_responses import KeptResponses
from edgellm.server.settings import Settings
from edgellm.types import Embedding, LoadOptions, ModelInfo, Pooling, Request, TokenEvent

RETRY_AFTER = 2  # seconds


@dataclass
class Totals:
    """Counts since the server began; seconds are summed over answers. prompt_tokens: the cached
    ones too. longest: tokens of a prompt and its answer.
    """

    requests: int = 0
    refused: int = 0
    aborted: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    longest: int = 0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0

    @property
    def prompt_rate(self) -> float | None:
        """Prompt tokens computed per second; None before any were."""
        computed = self.prompt_tokens - self.cached_tokens
        return computed / self.prompt_seconds if computed and self.prompt_seconds else None


@dataclass
class Said:
    """What an answer has read, text or token ids, and the ids that it wrote."""

    prompt: str | tuple[int, ...]
    written: list[int] = field(default_factory=list)


@dataclass
class Service:
    """One server's state. in_flight: answers being generated. is_loading: not ready yet.

    active: ids of the requests whose answers these are. scales: by model, those of its adapters for
    requests that say none, where they were changed. responses: those that may be gone on from.
    said: the last answer of each slot, by model and number.
    """

    client: LocalClient
    settings: Settings = field(default_factory=Settings)
    totals: Totals = field(default_factory=Totals)
    started: float = field(default_factory=time.time)
    in_flight: int = 0
    active: set[str] = field(default_factory=set)
    scales: dict[str, Mapping[str, float]] = field(default_factory=dict)
    responses: KeptResponses = field(default_factory=KeptResponses)
    said: dict[tuple[str, int], Said] = field(default_factory=dict)
    is_loading: bool = False
    catalog: Mapping[str, CatalogEntry] = field(default_factory=dict)

    def reload_catalog(self) -> None:
        """Reads which names may be loaded. Keeps what it had when the file is wrong: it raises."""
        self.catalog = load_catalog()

    async def model(self, name: str | None) -> ModelInfo:
        """The model that a request means, loaded if it is one that was or is stored here.

        Any other name means the only model that the server was started with: clients send names
        of their own. NoModel when it is not clear.
        """
        models = await self.client.models()
        for info in models:
            if info.name == name or f"{info.name}:latest" == name:
                return info
        if self.is_loading and not models:
            raise Refusal(503, "unavailable_error", "Loading model", RETRY_AFTER)
        found = await self.client.use(name) if name else None
        if found := found or await self.client.use():
            return found
        if not models:
            raise NoModel(
                "no model is loaded: name one that is stored (`edgellm list`), here or when the "
                "server is started"
            )
        loaded = ", ".join(info.name for info in models)
        what = "no model is named" if name is None else f"no model {name!r} is loaded"
        raise NoModel(f"{what}; loaded: {loaded}")

    async def others(self) -> list[pull.Stored]:
        """The models that are stored here and not loaded: requests may name them as well."""
        loaded = {info.name for info in await self.client.models()}
        found = await asyncio.to_thread(pull.stored_models)
        return [model for model in found if model.name not in loaded]

    def check_load(self, name: str, options: LoadOptions) -> None:
        """CatalogError or RequestError when a request may not load this: names, never paths."""
        if self.settings.any_path:
            return
        if name.lower() not in self.catalog or Path(name).exists():
            raise CatalogError(f"{name!r} is not in the catalogue: only its models can be loaded")
        if options.adapters or options.draft is not None:
            raise RequestError(
                "adapters and draft are files of the server: name them when it is started",
                "adapters" if options.adapters else "draft",
            )

    async def follow(
        self, request: Request, take: Callable[[TokenEvent], None], slot: int | None = None
    ) -> None:
        """Has `take` called with the events of a request, counted, unless there are too many
        requests already.

        slot: has the first answer from then on; for requests that name their model.
        """
        answers = request.params.n
        self._check_room(answers)
        request_id = request.request_id or os.urandom(12).hex()
        self.in_flight += answers
        self.active.add(request_id)
        self.totals.requests += 1
        unfinished, said = answers, Said(request.prompt)

        def counted(event: TokenEvent) -> None:
            nonlocal unfinished
            if event.index == 0 and slot is not None and request.model is not None:
                if not said.written:
                    self.said[request.model, slot] = said
                said.written += event.token_ids
            if event.finish_reason is not None:
                unfinished -= 1
                self._count(event)
            take(event)

        try:
            await self.client.follow(replace(request, request_id=request_id), counted)
        except asyncio.CancelledError:
            self.totals.aborted += unfinished
            raise
        finally:
            self.in_flight -= answers
            self.active.discard(request_id)

    async def embed(
        self,
        texts: Sequence[str | tuple[int, ...]],
        pooling: Pooling | None = None,
        truncate: bool = False,
        model: str | None = None,
    ) -> tuple[Embedding, ...]:
        """The embeddings of texts, counted as one request."""
        with self._in_flight():
            return self._embedded(await self.client.embed(texts, pooling, truncate, model))

    async def rerank(
        self, query: str, documents: Sequence[str], model: str | None = None
    ) -> tuple[Embedding, ...]:
        """The scores of documents, counted as one request."""
        with self._in_flight():
            return self._embedded(await self.client.rerank(query, documents, model))

    @contextmanager
    def _in_flight(self) -> Iterator[None]:
        self._check_room(1)
        self.in_flight += 1
        self.totals.requests += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    def _embedded(self, found: tuple[Embedding, ...]) -> tuple[Embedding, ...]:
        self.totals.prompt_tokens += sum(embedding.num_tokens for embedding in found)
        return found

    def _check_room(self, answers: int) -> None:
        """Refusal when there are too many requests already, RequestError for one that is too many
        by itself."""
        if answers > self.settings.max_requests:
            raise RequestError(
                f"n is {answers}: this server writes {self.settings.max_requests} answers at most",
                "n",
            )
        if self.in_flight + answers > self.settings.max_requests:
            self.totals.refused += 1
            raise Refusal(
                503,
                "unavailable_error",
                f"{self.in_flight} answers are being written and {self.settings.max_requests} "
                "may be: try again in a moment",
                RETRY_AFTER,
            )

    async def abort_all(self) -> None:
        """Ends all answers where they are."""
        for request_id in list(self.active):
            await self.client.abort(request_id)

    def _count(self, event: TokenEvent) -> None:
        totals, usage, timings = self.totals, event.usage, event.timings
        if usage is not None and timings is not None:
            totals.prompt_tokens += usage.prompt_tokens
            totals.cached_tokens += usage.cached_tokens
            totals.generated_tokens += usage.completion_tokens
            totals.drafted_tokens += usage.drafted_tokens
            totals.accepted_tokens += usage.accepted_tokens
            totals.longest = max(totals.longest, usage.prompt_tokens + usage.completion_tokens)
            totals.prompt_seconds += timings.first_token - timings.queued
            totals.decode_seconds += timings.decode
