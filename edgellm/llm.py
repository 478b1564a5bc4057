"""The synchronous Python API: `load` a model, ask it. Knows nothing of threads or steps.

with edgellm.load("smollm2") as model:
    print(model.chat([{"role": "user", "content": "Why is the sky blue?"}]).text)
"""

import os
import queue
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from edgellm.completion import collect
from edgellm.dialects import TAIL, plan, read_tools, taken_apart
from edgellm.errors import ContextOverflow, RequestError
from edgellm.generation import TakeRows
from edgellm.loaded_model import LoadedModel
from edgellm.manager import Manager
from edgellm.sessions import delete, saved_sessions
from edgellm.types import (
    Completion,
    LoadOptions,
    Message,
    Messages,
    ModelDetails,
    ModelInfo,
    Pooling,
    Request,
    SamplingParams,
    Session,
    SessionInfo,
    TokenEvent,
    Usage,
)

if TYPE_CHECKING:
    from edgellm.pull import Report

Ids = Iterable[int]


def load(
    name_or_path: str | os.PathLike[str],
    *,
    backend: str = "auto",
    device: str | None = None,
    gpu_layers: int | Literal["auto"] = "auto",
    threads: int | None = None,
    context_length: int | None = None,
    kv_cache_type: str | None = None,
    draft: str | None = None,
    adapters: Iterable[str] = (),
    max_num_seqs: int = 8,
    memory_limit: int | None = None,
    kv_cache_memory: int | None = None,
) -> "Model":
    """Loads a model file, or a model of the catalogue, which is pulled first if it must be.

    The options are those of LoadOptions. GGUFError, CatalogError, RequestError or BackendError
    says what is wrong with the file, the name, an option or the machine.
    """
    options = LoadOptions(
        backend=backend,
        device=device,
        gpu_layers=gpu_layers,
        threads=threads,
        context_length=context_length,
        kv_cache_type=kv_cache_type,
        draft=draft,
        adapters=(adapters,) if isinstance(adapters, str) else tuple(adapters),
        max_num_seqs=max_num_seqs,
        memory_limit=memory_limit,
        kv_cache_memory=kv_cache_memory,
    )
    return Model.open(name_or_path, options)


class Model:
    """One loaded model; a context manager. Several threads may use it at the same time."""

    def __init__(self, manager: Manager, info: ModelInfo) -> None:
        self._manager = manager
        self.info = info

    @classmethod
    def open(
        cls,
        name_or_path: str | os.PathLike[str],
        options: LoadOptions,
        report: "Report | None" = None,
    ) -> Self:
        """What `load` gives. report: is told of what takes a while."""
        manager = Manager(report)
        try:
            return cls(manager, manager.load(name_or_path, options))
        except BaseException:
            manager.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _loaded(self) -> LoadedModel:
        return self._manager.model(self.info.name)

    @property
    def bos_id(self) -> int | None:
        """The token that begins every text; None when the model wants none."""
        tokenizer = self._loaded.tokenizer
        return tokenizer.bos_id if tokenizer.add_bos else None

    def details(self) -> ModelDetails:
        """What a front end may want to know beyond `info`."""
        return self._loaded.details

    def close(self) -> None:
        """Aborts what runs and gives everything back. May be called again."""
        self._manager.close()

    def tokenize(
        self, text: str, add_special: bool = True, parse_special: bool = True
    ) -> list[int]:
        """Token ids. add_special: BOS and EOS where the model wants them; parse_special: text such
        as <|im_end|> becomes that token. RequestError for text that is no UTF-8."""
        return self._loaded.tokenizer.encode(text, add_special, parse_special)

    def detokenize(self, ids: Ids) -> str:
        """The text of token ids, special tokens included; U+FFFD stands for what is no character.

        RequestError for an id outside the vocabulary.
        """
        return self._loaded.tokenizer.decode(list(ids))

    def apply_chat_template(
        self,
        messages: Messages,
        tools: list[Message] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The messages as the text that the model was trained on.

        RequestError names the message that the template does not take, and why.
        """
        return self._loaded.chat_template.render(
            messages, tools=tools, add_generation_prompt=add_generation_prompt
        )

    def chat_ids(
        self, messages: Messages, variables: Mapping[str, Any] | None = None
    ) -> tuple[int, ...]:
        """The messages as token ids that end where an answer begins, a Request's prompt.

        variables: more that the template may read.
        """
        return tuple(self._loaded.chat_ids(messages, **(variables or {})))

    def logits(self, ids: Ids, last_only: bool = False) -> npt.NDArray[np.float32]:
        """Logits after each token, (len(ids), vocab_size), or with last_only (1, vocab_size).

        The same bits as in a generation that comes to these tokens. RequestError for an empty
        list or an unknown id, ContextOverflow for more tokens than the context holds.
        """
        token_ids = list(ids)
        start = max(0, len(token_ids) - 1) if last_only else 0
        if len(token_ids) > self.info.context_length:
            raise ContextOverflow(len(token_ids), self.info.context_length)
        out = np.empty((len(token_ids) - start, self.info.vocab_size), np.float32)

        def keep(position: int, rows: npt.NDArray[np.float32]) -> None:
            out[position - start : position - start + len(rows)] = rows

        self.score(token_ids, keep, start)
        return out

    def score(self, ids: list[int], take_rows: TakeRows, start: int = 0) -> None:
        """Like logits from position `start` on, but piece by piece: nothing is held.

        take_rows: called with (position of the first row, rows) in the engine's thread, which
        waits for it; the rows are valid during the call only.
        """
        self._manager.score(ids, take_rows, start, self.info.name)

    def complete(
        self,
        prompt: str | Ids,
        params: SamplingParams | None = None,
        adapters: Mapping[str, float] | None = None,
    ) -> Completion:
        """The continuation of a text, or of token ids taken as they are.

        params: fields that are not given are what the file or the catalogue advises, else the
        defaults. adapters: see Request. RequestError for what this model cannot hold to,
        ContextOverflow for a prompt that leaves no room for an answer.
        """
        return collect(self.stream(prompt, params, adapters))

    def keep(self, prompt: str | Ids) -> Usage:
        """Computes a prompt and has the cache keep it, such as a system prompt of many answers.

        It stays until the model is closed or newer ones need its place: all of them take at most
        half of the cache. RequestError when it is longer than that.
        """
        request = self._request(prompt, SamplingParams(max_tokens=0), keep_prompt=True)
        return collect(self.submit(request)).usage

    def chat(
        self,
        messages: Messages,
        params: SamplingParams | None = None,
        tools: list[Message] | None = None,
        adapters: Mapping[str, float] | None = None,
        tool_choice: Any = "auto",
    ) -> Completion:
        """The model's answer to the messages, its reasoning and calls apart from its text.

        tools, tool_choice: as in OpenAI's chat API. A call is held to a form where one must come or
        its function is strict. Errors are those of complete.
        """
        loaded = self._loaded
        asked = plan(loaded.details, read_tools(tools, tool_choice))
        ids = loaded.chat_ids(asked.messages(messages), asked.template_tools)
        tail = loaded.tokenizer.decode(ids[-TAIL:])
        answering = asked.answering(params or SamplingParams(), tail)
        shown = answering.shown
        request = self._request(ids, answering.params, shown=shown, adapters=adapters)
        return taken_apart(collect(self.submit(request)), answering.parser)

    def stream(
        self,
        prompt: str | Ids,
        params: SamplingParams | None = None,
        adapters: Mapping[str, float] | None = None,
    ) -> Iterator[TokenEvent]:
        """The events of all params.n answers as they come; leaving the loop aborts the rest.

        Arguments and errors are those of complete.
        """
        return self.submit(self._request(prompt, params, adapters=adapters))

    def _request(self, prompt: str | Ids, params: SamplingParams | None, **fields: Any) -> Request:
        given = prompt if isinstance(prompt, str) else tuple(prompt)
        return Request(given, params or SamplingParams(), model=self.info.name, **fields)

    def submit(self, request: Request) -> Generator[TokenEvent, None, None]:
        """The events of a whole request, as `stream` gives them."""
        outbox: queue.SimpleQueue[TokenEvent | Exception] = queue.SimpleQueue()
        request_id = self._manager.submit(request, outbox.put)
        unfinished = request.params.n
        try:
            while unfinished:
                event = outbox.get()
                if isinstance(event, Exception):
                    raise event
                unfinished -= event.finish_reason is not None
                yield event
        finally:
            if unfinished:
                self._manager.abort(request_id)

    def save_session(self, name: str, ids: Ids, messages: Messages = ()) -> SessionInfo:
        """Saves what the cache has of these tokens to disk, in place of an older one of the name.

        ids: as they were computed, prompt and answer. messages: kept with them.
        """
        return self._manager.save_session(name, list(ids), messages, self.info.name)

    def restore_session(self, name: str) -> Session:
        """Puts a saved session into the cache: a prompt that begins with it computes the rest.

        SessionError when there is none, or it is damaged or of another model or setting; nothing
        has changed then.
        """
        return self._manager.restore_session(name, self.info.name)

    def sessions(self) -> tuple[SessionInfo, ...]:
        """The saved sessions, of whatever model, by name."""
        return saved_sessions()

    def delete_session(self, name: str) -> None:
        """Forgets a saved session. SessionError when there is none."""
        delete(name)

    def embed(
        self, texts: Iterable[str | Sequence[int]], pooling: Pooling | None = None
    ) -> npt.NDArray[np.float32]:
        """Embeddings, (len(texts), dim), each of length 1; of texts or of token ids.

        pooling: "mean" of all tokens, the first one ("cls") or the "last"; "rank": the scores of a
        classifier; "none": a row for each token, those of all texts one after another. None: what
        the file asks for. RequestError and ContextOverflow say what cannot be embedded.
        """
        if isinstance(texts, str):
            raise RequestError("texts is one text: a list of them is expected", "texts")
        found = self._manager.embed(list(texts), pooling, name=self.info.name)
        if not found:
            return np.zeros((0, 0), np.float32)
        return np.concatenate([pooled.rows for pooled in found])

    def rerank(self, query: str, documents: Iterable[str]) -> npt.NDArray[np.float32]:
        """How well each document answers the query, (len(documents),): the first label's score.

        RequestError for a model without a classifier.
        """
        found = self._manager.rerank(query, list(documents), self.info.name)
        return np.array([pooled.rows[0, 0] for pooled in found], np.float32)
