"""What every front end may ask of the engine, wherever it runs. Says nothing of how."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from edgellm.holes import FimPrompt, Hole
from edgellm.types import (
    Embedding,
    LoadOptions,
    Message,
    Messages,
    ModelDetails,
    ModelInfo,
    Pooling,
    Request,
    Session,
    SessionInfo,
    Stats,
    TokenEvent,
)

if TYPE_CHECKING:
    from edgellm.pull import Report


class Client(Protocol):
    """Every error is an EdgeLLMError. model: a name, loaded if need be; None is the only one."""

    def submit(self, request: Request) -> AsyncGenerator[TokenEvent, None]:
        """The events of all params.n answers as they come; closing it aborts the rest.

        A loop that may be left early wants contextlib.aclosing around it.
        """

    async def abort(self, request_id: str) -> None:
        """Ends a request: its answers finish with reason "abort". An unknown id is no error."""

    async def models(self) -> tuple[ModelInfo, ...]:
        """The models that are loaded."""

    async def load(
        self,
        name_or_path: str,
        options: LoadOptions | None = None,
        report: "Report | None" = None,
    ) -> ModelInfo:
        """Loads a model, pulling it first if it must be. report: is told how far that is."""

    async def use(
        self, name: str | None = None, keep_alive: float | None = None
    ) -> ModelInfo | None:
        """A model that requests may name, loaded if it must be; None when they may not.

        It was loaded before, or is stored there. keep_alive: as in Request.
        """

    async def unload(self, name: str) -> None:
        """Aborts a model's requests and closes it."""

    async def details(self, model: str | None = None) -> ModelDetails:
        """What a front end may want to know of a loaded model beyond its ModelInfo."""

    async def tokenize(
        self,
        text: str,
        add_special: bool = True,
        parse_special: bool = True,
        model: str | None = None,
    ) -> list[int]:
        """Token ids of a text."""

    async def detokenize(self, ids: Sequence[int], model: str | None = None) -> str:
        """The text of token ids; what is no character in it becomes U+FFFD."""

    async def token_bytes(self, ids: Sequence[int], model: str | None = None) -> list[bytes]:
        """What each id by itself adds to a text, perhaps part of a character."""

    async def pieces(self, ids: Sequence[int], model: str | None = None) -> tuple[str, ...]:
        """The text that each id makes certain, control tokens written out; joined, all of it."""

    async def chat_prompt(
        self,
        messages: Messages,
        tools: list[Message] | None = None,
        model: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Messages under the model's template. variables: more that the template may read, and
        add_generation_prompt."""

    async def chat_ids(
        self,
        messages: Messages,
        tools: list[Message] | None = None,
        model: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> tuple[int, ...]:
        """The same as token ids, a Request's prompt."""

    async def fim_prompt(
        self,
        hole: Hole,
        max_tokens: int | None = None,
        suffix_limit: int | None = None,
        model: str | None = None,
    ) -> FimPrompt:
        """The prompt that fills a hole in at most max_tokens, for a model that was trained to.

        suffix_limit: tokens; the suffix is read anew after each keystroke. BackendError when the
        model has no tokens for it.
        """

    async def embed(
        self,
        texts: Sequence[str | tuple[int, ...]],
        pooling: Pooling | None = None,
        truncate: bool = False,
        model: str | None = None,
    ) -> tuple[Embedding, ...]:
        """The embedding of each text, or of token ids taken as they are.

        pooling: None is the model's own. truncate: what is longer than the context is cut.
        """

    async def rerank(
        self, query: str, documents: Sequence[str], model: str | None = None
    ) -> tuple[Embedding, ...]:
        """The scores that a reranker's classifier gives each document for the query."""

    async def save_session(
        self,
        name: str,
        ids: Sequence[int],
        messages: Messages = (),
        model: str | None = None,
    ) -> SessionInfo:
        """Saves what the cache has of these tokens, and the messages, under a name."""

    async def restore_session(self, name: str, model: str | None = None) -> Session:
        """Puts a saved session into the cache. SessionError when there is none that fits."""

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """The saved sessions, of whatever model."""

    async def delete_session(self, name: str) -> None:
        """Forgets a saved session."""

    async def stats(self) -> Mapping[str, Stats]:
        """What each model's engine has done and is doing."""

    async def close(self) -> None:
        """Ends the connection, and the engine if it is this process's."""
