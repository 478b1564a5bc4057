"""Models and the one engine thread that runs them all. Any thread may call in.

Checks requests and hands them to the engine. Knows nothing of front ends, nor of what happens
inside a step.
"""

import logging
import os
import threading
from collections.abc import Mapping, Sequence as Seq
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from edgellm import sessions
from edgellm.adapter_files import checked_scale
from edgellm.answers import consumers
from edgellm.backends import Backends
from edgellm.engine import EngineThread
from edgellm.errors import ContextOverflow, RequestError
from edgellm.generation import Emit, Scoring, TakeRows
from edgellm.loaded_model import LoadedModel, load_model
from edgellm.sampling_params import check_params, resolve
from edgellm.sequence import Sequence
from edgellm.types import (
    LoadOptions,
    Messages,
    ModelInfo,
    Request,
    SamplingParams,
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
    """

    def __init__(self, report: "Report | None" = None) -> None:
        self._report = report
        self._note = report.note if report else _log.warning
        self._thread = EngineThread()  # before the backends, so that it ends before them
        self._backends = Backends(self._note)
        self._models: dict[str, LoadedModel] = {}
        self._loading: set[str] = set()
        self._lock = threading.Lock()
        self._request_ids = count(1)

    def load(
        self,
        name_or_path: str | os.PathLike[str],
        options: LoadOptions | None = None,
        report: "Report | None" = None,
    ) -> ModelInfo:
        """Loads a model file, or a catalogue model that is pulled first when it is not here yet.

        report: is told about this model, instead of the manager's.
        """
        note = report.note if report else self._note
        options = options or LoadOptions()
        path, name, sampling = find_model(name_or_path, report or self._report)
        draft = None
        if options.draft is not None:
            draft, _, _ = find_model(options.draft, report or self._report)
        with self._lock:
            if name in self._models or name in self._loading:
                raise RequestError(f"a model named {name!r} is loaded already", "model")
            self._loading.add(name)
        try:
            model = load_model(path, name, options, sampling, self._backends, note, draft)
            self.add(model)
        finally:
            self._loading.discard(name)
        return model.info

    def add(self, model: LoadedModel) -> None:
        """Takes in a model that is made already; it is closed with the others."""
        self._models[model.info.name] = model
        self._thread.attach(model.engine)

    def unload(self, name: str) -> None:
        """Aborts a model's requests and closes it."""
        model = self.model(name)
        del self._models[name]
        self._thread.detach(model.engine)
        model.close()

    def close(self) -> None:
        """Unloads everything and ends the thread. May be called again."""
        self._thread.close()
        while self._models:
            self._models.popitem()[1].close()
        self._backends.close()

    def model(self, name: str | None = None) -> LoadedModel:
        """The model of this name, or the only one. RequestError when that is not clear."""
        models = dict(self._models)
        if name is None and len(models) == 1:
            return next(iter(models.values()))
        if name is None or name not in models:
            loaded = ", ".join(models) or "none"
            what = "no model is named" if name is None else f"no model {name!r} is loaded"
            raise RequestError(f"{what}; loaded: {loaded}", "model")
        return models[name]

    def models(self) -> tuple[ModelInfo, ...]:
        return tuple(model.info for model in dict(self._models).values())

    def stats(self) -> Mapping[str, Stats]:
        """Per model name."""
        return {name: model.engine.stats() for name, model in dict(self._models).items()}

    def submit(self, request: Request, emit: Emit) -> str:
        """Starts a generation and returns its id. RequestError for a request that cannot run.

        emit: called in the engine's thread with every TokenEvent, params.n of which have a
        finish_reason; or with the exception that ended an answer. It must be quick.
        """
        check_params(request.params)
        model = self.model(request.model)
        prompt = _prompt_ids(model, request)
        params, context = resolve(request.params, model.info.sampling), model.info.context_length
        if len(prompt) >= context:  # also said by the scheduler, but here before any thread
            raise ContextOverflow(len(prompt), context)
        room = context - len(prompt)
        max_tokens = room if params.max_tokens is None else min(room, params.max_tokens)
        seed = int.from_bytes(os.urandom(8)) if params.seed is None else params.seed
        request_id = request.request_id or f"request-{next(self._request_ids)}"
        answers = consumers(
            model,
            Sequence(
                0,
                prompt,
                len(prompt),
                params,
                is_background=_is_background(request),
                adapter_scales=_adapter_scales(request, model.info),
            ),
            request_id=request_id,
            emit=emit,
            seed=seed,
            max_tokens=max_tokens,
            skip_special=request.skip_special,
            shown=request.shown,
        )
        self._thread.post(partial(model.engine.add, *answers))
        return request_id

    def save_session(
        self, name: str, ids: Seq[int], messages: Messages = (), model: str | None = None
    ) -> SessionInfo:
        """Saves what the cache has of these tokens under a name, and with it the conversation."""
        loaded = self.model(model)
        _check_ids(list(ids), loaded.info.vocab_size)
        return sessions.save(self._saved_model(loaded), name, ids, messages)

    def restore_session(self, name: str, model: str | None = None) -> Session:
        """Puts a saved session into the cache, where prompts that begin with it find it.

        SessionError when there is none, or it is damaged or of another model or setting.
        """
        return sessions.restore(self._saved_model(self.model(model)), name)

    def _saved_model(self, loaded: LoadedModel) -> sessions.SavedModel:
        info = loaded.info
        return sessions.SavedModel(
            info.name,
            loaded.engine,
            loaded.session_key,
            info.vocab_size,
            tuple(adapter.scale for adapter in info.adapters),
            self._thread.ask,
        )

    def abort(self, request_id: str) -> None:
        """Ends a request, whatever model it runs on. An unknown id is no error."""
        for model in dict(self._models).values():
            self._thread.post(partial(model.engine.abort, request_id))

    def score(
        self, ids: list[int], take_rows: TakeRows, start: int = 0, name: str | None = None
    ) -> None:
        """Computes the logits of every position from `start` on; returns when all are taken.

        take_rows: called in the engine's thread with (position of the first row, rows); the rows
        are valid during the call only.
        """
        model = self.model(name)
        _check_ids(ids, model.info.vocab_size)
        if not 0 <= start < max(1, len(ids)):
            raise RequestError(f"logits from position {start} of {len(ids)} tokens", "start")
        over = threading.Event()
        failure: list[Exception] = []

        def done(error: Exception | None) -> None:
            if error is not None:
                failure.append(error)
            over.set()

        request_id = f"request-{next(self._request_ids)}"
        sequence = Sequence(
            0,
            list(ids),
            len(ids),
            SamplingParams(),
            score_from=start,
            adapter_scales=tuple(adapter.scale for adapter in model.info.adapters),
        )
        consumer = Scoring(request_id, sequence, take_rows, done)
        self._thread.post(partial(model.engine.add, consumer))
        try:
            over.wait()
        except BaseException:  # Ctrl-C: nobody waits for the rest
            self.abort(request_id)
            raise
        if failure:
            raise failure[0]


def find_model(
    name_or_path: str | os.PathLike[str], report: "Report | None" = None
) -> tuple[Path, str, Mapping[str, float]]:
    """The file, a name for it, and the sampling its makers advise.

    A file that exists goes before a catalogue name; a catalogue model that is not here is pulled,
    unless nothing here can run it: GGUFError.
    """
    text = os.fspath(name_or_path)
    path = Path(text).expanduser()
    if path.is_file():
        return path, path.stem, {}
    from edgellm.catalog import load_catalog
    from edgellm.models.registry import architecture
    from edgellm.pull import resolve, stored  # with the clients of hubs: not for a plain file

    entry = load_catalog().get(text.lower())
    if entry and entry.architecture and not stored(entry.name):
        architecture(entry.architecture)
    path = resolve(text, report)
    return (path, entry.name, entry.sampling) if entry else (path, path.stem, {})


def _is_background(request: Request) -> bool:
    if request.priority not in ("interactive", "background"):
        raise RequestError(
            f"priority is {request.priority!r}: interactive or background is expected", "priority"
        )
    return request.priority == "background"


def _prompt_ids(model: LoadedModel, request: Request) -> list[int]:
    if isinstance(request.prompt, str):
        return model.tokenizer.encode(
            request.prompt, add_special=request.add_special, parse_special=request.parse_special
        )
    ids = list(request.prompt)
    _check_ids(ids, model.info.vocab_size)
    return ids


def _adapter_scales(request: Request, info: ModelInfo) -> tuple[float, ...]:
    """One for each adapter of the model. RequestError names one that it does not have."""
    if request.adapters is None:
        return tuple(adapter.scale for adapter in info.adapters)
    known = [adapter.name for adapter in info.adapters]
    for name, scale in request.adapters.items():
        checked_scale(name, scale)
        if name not in known:
            has = ", ".join(known) or "none"
            raise RequestError(f"{info.name} has no adapter {name!r}; it has: {has}", "adapters")
    return tuple(float(request.adapters.get(name, 0.0)) for name in known)


def _check_ids(ids: list[int], vocab_size: int) -> None:
    for place in (min(ids, default=0), max(ids, default=0)):
        if not 0 <= place < vocab_size:
            raise RequestError(
                f"token id {place} is outside the vocabulary of {vocab_size}", "prompt"
            )
