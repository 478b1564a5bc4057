"""Models and the one engine thread that runs them all. Any thread may call in.

Checks requests and hands them to the engine. Knows nothing of front ends, nor of what happens
inside a step.
"""

import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence as Seq
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from edgellm import sessions
from edgellm.answers import checked_ids, consumers, scoring
from edgellm.backends import Backends
from edgellm.embeddings import Pooled, PoolingWork, Text, checked_pooling, one_text, two_texts
from edgellm.engine_thread import EngineThread
from edgellm.errors import NoModel
from edgellm.generation import Emit, TakeRows
from edgellm.loaded_model import LoadedModel
from edgellm.model_loader import KEEP_ALIVE, ModelLoader, find_model
from edgellm.model_pool import ModelPool
from edgellm.model_source import Source
from edgellm.sampling_params import check_params
from edgellm.types import (
    LoadOptions,
    Messages,
    ModelInfo,
    Pooling,
    Request,
    Session,
    SessionInfo,
    Stats,
)

if TYPE_CHECKING:
    from edgellm.pull import Report

_log = logging.getLogger("edgellm")


class Manager:
    """Loads, finds and unloads models by name, and submits work to them.

    report: is told how a model that must be fetched first comes in, and what users should know.
    memory: bytes for all models together; None: what is free when the first one is loaded.
    keep_alive, options: of models that are stored here and come in because a request names them:
    seconds that they stay unused (negative: for ever), and how they are loaded. expects_forms:
    the first answer of a given form is not to wait, nor to make others wait.
    """

    def __init__(
        self,
        report: "Report | None" = None,
        memory: int | None = None,
        keep_alive: float = KEEP_ALIVE,
        options: LoadOptions | None = None,
        expects_forms: bool = False,
    ) -> None:
        self._report = report
        self._thread = EngineThread()  # before the backends, so that it ends before them
        note = report.note if report else _log.warning
        self._backends = Backends(note)
        self._loader = ModelLoader(
            self._backends, note, options or LoadOptions(), keep_alive, expects_forms
        )
        self._pool = ModelPool(self._thread, self._loader, memory)
        self._request_ids = count(1)

    def load(
        self,
        name_or_path: str | os.PathLike[str],
        options: LoadOptions | None = None,
        report: "Report | None" = None,
    ) -> ModelInfo:
        """Loads a model file, or a catalogue model that is pulled first when it is not here yet.

        Its name is served from then on: when it has gone for another one it comes back by it.
        report: is told about this model, instead of the manager's.
        """
        report = report or self._report
        options = options or LoadOptions()
        path, name, sampling = find_model(name_or_path, report)
        draft = None if options.draft is None else find_model(options.draft, report)[0]
        source = Source(path, name, options, sampling, draft)
        if report is None:
            return self._pool.load(source).info
        with self._backends.watched(report.count):
            return self._pool.load(source, report.note).info

    def add(self, model: LoadedModel) -> None:
        """Takes in a model that is made already; it is closed with the others."""
        self._pool.add(model)

    def unload(self, name: str) -> None:
        """Aborts a model's requests and closes it."""
        self._pool.unload(name)

    def close(self) -> None:
        """Unloads everything and ends the thread. May be called again."""
        self._thread.close()
        self._pool.close()
        self._backends.close()

    def use(self, name: str | None = None, keep_alive: float | None = None) -> ModelInfo | None:
        """A model that requests may name, loaded if it must be; None when they may not.

        keep_alive: as in Request.
        """
        if self._meant(name) is None:
            return None
        with self.using(name, keep_alive) as model:
            return model.info

    @contextmanager
    def using(
        self, name: str | None = None, keep_alive: float | None = None
    ) -> Iterator[LoadedModel]:
        """Holds the model of this name, or the only one; it is loaded if it must be.

        A name is that of a model that was loaded, or of one that is stored here; never a path.
        NoModel when it is not clear.
        """
        meant = self._meant(name)
        if meant is None:
            names = ", ".join(self._pool.loaded()) or "none"
            what = "no model is named" if name is None else f"no model {name!r} is loaded"
            raise NoModel(f"{what}; loaded: {names}")
        with self._pool.using(meant, keep_alive) as model:
            yield model

    def model(self, name: str | None = None) -> LoadedModel:
        """The model of this name, or the only one, as `using` finds it."""
        with self.using(name) as model:
            return model

    def loaded(self, name: str | None = None) -> LoadedModel | None:
        """The same if it is in memory."""
        models = self._pool.loaded()
        meant = name if name in models else self._meant(name)
        return None if meant is None else models.get(meant)

    def _meant(self, name: str | None) -> str | None:
        """The name of a model that is loaded, or was, or is stored here; None when there is none.

        No name is the only one that was loaded on purpose, or is loaded now.
        """
        loaded, served = self._pool.loaded(), self._pool.served()
        if name is None:
            names = served or list(loaded)
            return names[0] if len(names) == 1 else None
        for known in (name, name.lower().removesuffix(":latest")):
            if known in loaded or known in served or self._loader.find(known):
                return known
        return None

    def models(self) -> tuple[ModelInfo, ...]:
        """Those that are loaded."""
        expires = self._pool.expiries()
        loaded = self._pool.loaded().items()
        return tuple(replace(m.info, expires=expires.get(name)) for name, m in loaded)

    def stats(self) -> Mapping[str, Stats]:
        """Per model name."""
        return {name: model.engine.stats() for name, model in self._pool.loaded().items()}

    def submit(self, request: Request, emit: Emit) -> str:
        """Starts a generation and returns its id. RequestError for a request that cannot run.

        emit: called in the engine's thread with every TokenEvent, params.n of which have a
        finish_reason; or with the exception that ended an answer. It must be quick.
        """
        check_params(request.params)
        with self.using(request.model, request.keep_alive) as model:
            request_id = request.request_id or self._new_id()
            answers = consumers(model, request, request_id, emit)
            self._thread.post(partial(model.engine.add, *answers))
        return request_id

    def save_session(
        self, name: str, ids: Seq[int], messages: Messages = (), model: str | None = None
    ) -> SessionInfo:
        """Saves what the cache has of these tokens under a name, and with it the conversation."""
        with self.using(model) as loaded:
            known = checked_ids(ids, loaded.info.vocab_size)
            return sessions.save(self._saved_model(loaded), name, known, messages)

    def restore_session(self, name: str, model: str | None = None) -> Session:
        """Puts a saved session into the cache, where prompts that begin with it find it.

        SessionError when there is none, or it is damaged or of another model or setting.
        """
        with self.using(model) as loaded:
            return sessions.restore(self._saved_model(loaded), name)

    def _new_id(self) -> str:
        return f"request-{next(self._request_ids)}"

    def _saved_model(self, loaded: LoadedModel) -> sessions.SavedModel:
        info = loaded.info
        return sessions.SavedModel(
            info.name,
            loaded.engine,
            loaded.session_key,
            info.vocab_size,
            info.adapter_scales,
            self._thread.ask,
        )

    def after_step(self, action: Callable[[], None]) -> None:
        """Has `action` called once all events of the current step are emitted.

        For `emit`: to be called in the engine's thread.
        """
        self._thread.after_step(action)

    def abort(self, request_id: str) -> None:
        """Ends a request, whatever model it runs on. An unknown id is no error."""
        for model in self._pool.loaded().values():
            self._thread.post(partial(model.engine.abort, request_id))

    def score(
        self, ids: list[int], take_rows: TakeRows, start: int = 0, name: str | None = None
    ) -> None:
        """Computes the logits of every position from `start` on; returns when all are taken.

        take_rows: called in the engine's thread with (position of the first row, rows); the rows
        are valid during the call only.
        """
        with self.using(name) as model:
            over: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
            request_id = self._new_id()
            consumer = scoring(model, ids, start, request_id, take_rows, over.put)
            self._thread.post(partial(model.engine.add, consumer))
            try:
                failure = over.get()
            except BaseException:  # Ctrl-C: nobody waits for the rest
                self.abort(request_id)
                raise
            if failure is not None:
                raise failure

    def embed(
        self,
        prompts: Seq[str | Seq[int]],
        pooling: Pooling | None = None,
        truncate: bool = False,
        name: str | None = None,
        given_up: threading.Event | None = None,
    ) -> list[Pooled]:
        """The embedding of each text, or of token ids taken as they are, when all are there.

        pooling: None is the model's own. truncate: what is longer than the context is cut.
        given_up: is set when nobody waits any more. RequestError and ContextOverflow say what
        cannot be embedded.
        """
        with self.using(name) as model:
            wanted = checked_pooling(model, pooling)
            texts = [one_text(model, prompt, truncate) for prompt in prompts]
            return self._pooled(model, texts, wanted, given_up)

    def rerank(
        self,
        query: str,
        documents: Seq[str],
        name: str | None = None,
        given_up: threading.Event | None = None,
    ) -> list[Pooled]:
        """The scores of each document for the query, of a model that has a classifier for that."""
        with self.using(name) as model:
            pooling = checked_pooling(model, "rank")
            texts = [two_texts(model, query, document) for document in documents]
            return self._pooled(model, texts, pooling, given_up)

    def _pooled(
        self,
        model: LoadedModel,
        texts: list[Text],
        pooling: Pooling,
        given_up: threading.Event | None,
    ) -> list[Pooled]:
        size = model.info.vocab_size
        checked = [replace(text, ids=checked_ids(text.ids, size)) for text in texts]
        request_id = self._new_id()
        work = PoolingWork(model, checked, pooling, request_id)
        for pooler in work.poolers:
            self._thread.post(partial(model.engine.add, pooler))
        try:
            return work.wait(given_up)
        except BaseException:  # one failed, or Ctrl-C: nobody wants the others
            self.abort(request_id)
            raise
