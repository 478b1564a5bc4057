"""From a name to a loaded model: which file it means, and what memory that should have.

Knows nothing of the models that are loaded already.
"""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgellm.backend_kinds import Note
from edgellm.backends import Backends
from edgellm.errors import EdgeLLMError
from edgellm.gguf_loader import open_gguf
from edgellm.loaded_model import LoadedModel, load_model
from edgellm.model_source import Source
from edgellm.paths import typed_file
from edgellm.summary import summarize
from edgellm.types import LoadOptions

if TYPE_CHECKING:
    from edgellm.pull import Report

KEEP_ALIVE = 300.0  # seconds


class ModelLoader:
    """The Loader of a ModelPool. note: is told what users should know.

    options, keep_alive: of models that are stored here and come in because they are named: how
    they are loaded, and the seconds that they stay unused (negative: for ever). expects_forms:
    answers of a given form will be asked for, so that their vocabulary is made ahead.
    """

    def __init__(
        self,
        backends: Backends,
        note: Note,
        options: LoadOptions,
        keep_alive: float = KEEP_ALIVE,
        expects_forms: bool = False,
    ) -> None:
        self._backends = backends
        self._note = note
        self._options = options
        self._keep_alive = None if keep_alive < 0 else keep_alive
        self._expects_forms = expects_forms

    def find(self, name: str) -> Source | None:
        """A model that was pulled under this name; None when there is none. Never a path."""
        from edgellm.catalog import NAME, load_catalog
        from edgellm.pull import stored

        found = stored(name) if NAME.fullmatch(name) else None
        if found is None:
            return None
        entry = load_catalog().get(name)
        sampling = entry.sampling if entry else {}
        return Source(found.path, name, self._options, sampling, keep_alive=self._keep_alive)

    def load(self, source: Source, memory: int | None, note: Note | None = None) -> LoadedModel:
        """The model, of at most `memory` bytes. The errors of load_model."""
        note = note or self._note
        options, most = source.options, source.options.memory_limit
        if memory is not None and (most is None or most > memory):
            options = replace(options, memory_limit=max(1, memory))
        path, name, draft = source.path, source.name, source.draft
        model = load_model(path, name, options, source.sampling, self._backends, note, draft)
        if self._expects_forms and model.info.generates:
            threading.Thread(target=_make_words, args=(model,), daemon=True).start()
        return model

    def needed(self, source: Source) -> int:
        """Bytes of the weights and of two contexts: windows take more than what they show."""
        files = [source.path] if source.draft is None else [source.path, source.draft]
        return sum(_needed(path, source.options.context_length) for path in files)


def _make_words(model: LoadedModel) -> None:
    with suppress(EdgeLLMError):  # the request that wants them is told
        model.words  # noqa: B018


def _needed(path: Path, context_length: int | None) -> int:
    with open_gguf(path) as file:
        memory = summarize(file, context_length).memory
    return memory.weights + 2 * (memory.kv_cache + memory.states)


def find_model(
    name_or_path: str | os.PathLike[str], report: "Report | None" = None
) -> tuple[Path, str, Mapping[str, float]]:
    """The file, a name for it, and the sampling its makers advise.

    A file that exists goes before a catalogue name; a catalogue model that is not here is pulled,
    unless nothing here can run it: GGUFError.
    """
    text = os.fspath(name_or_path)
    if (file := typed_file(text)) is not None:
        return file, file.stem, {}
    from edgellm.catalog import load_catalog
    from edgellm.models.registry import architecture
    from edgellm.pull import resolve, stored  # with the clients of hubs: not for a plain file

    entry = load_catalog().get(text.lower())
    if entry and entry.architecture and not stored(entry.name):
        architecture(entry.architecture)
    path = resolve(text, report)
    return (path, entry.name, entry.sampling) if entry else (path, path.stem, {})
