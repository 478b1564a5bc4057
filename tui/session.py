"""The engine as the chat uses it: kept running, models loaded once, an answer per conversation.

Several answers are written at the same time; the engine batches them. Knows no screen.
"""

import asyncio
from collections.abc import Callable

from edgellm.client import Client
from edgellm.errors import ConnectionFailed, EdgeLLMError
from edgellm.tui.chat import Chat, Message, as_openai, model_name
from edgellm.tui.doors import Engine, Note
from edgellm.tui.generation import Generation, Save
from edgellm.tui.options import sampling_params, thinking
from edgellm.tui.reading import Begun, chat_ids
from edgellm.types import LoadOptions, ModelInfo, SamplingParams

_NONE = "choose a model first"
_STOPS = " · Esc stops"
_ENDED = "the engine has ended unexpectedly; the next message starts it again"


class _Report:
    """Shows how far a model is that is being loaded."""

    def __init__(self, model: str, show: Note, note: Note) -> None:
        self._model = model
        self._show = show
        self.note = note

    def advance(self, what: str, done: int, total: int | None) -> None:
        share = f" {done / total:.0%}" if total else ""
        self._show(f"loading {self._model}: {what}{share}{_STOPS}")

    def count(self, what: str, done: int, total: int) -> None:
        self._show(f"{what}: {done} of {total}, once for this processor{_STOPS}")


class Session:
    """note: is told what goes on. changed: an answer has begun or ended, or a model has come."""

    def __init__(
        self,
        engine: Engine,
        save: Save,
        note: Note,
        changed: Callable[[Generation | None], None],
        load_options: LoadOptions | None = None,
    ) -> None:
        self.activity = ""  # what is done before an answer can begin
        self.failure = ""  # why no model could be had when one was asked for last
        self.models: dict[str, ModelInfo] = {}
        self.acceptance: dict[int, float | None] = {}  # by message, of answers that ended here
        self.errors: dict[int, Exception] = {}  # by message, of answers that failed here
        self._names: dict[str, str] = {}  # what was asked for: the loaded model's name
        self._engine = engine
        self._save = save
        self._note = note
        self._changed = changed
        self._load_options = load_options
        self._client: Client | None = None
        self._checking: asyncio.Task[None] | None = None  # whether the engine lives, after an error
        self._lock = asyncio.Lock()
        self._loading: asyncio.Future[ModelInfo] | None = None
        self._running: dict[int, list[tuple[Generation, asyncio.Task[None]]]] = {}

    async def client(self) -> Client:
        """The client of an engine that runs."""
        if self._checking is not None:
            await self._checking
        async with self._lock:
            if self._client is None:
                self._show_activity("starting the engine…")
                try:
                    self._client = await self._engine.start()
                finally:
                    self._show_activity("")
            return self._client

    async def model(self, name: str | None) -> ModelInfo:
        """The model of this name or path, loaded. EdgeLLMError says why it cannot be."""
        if name is None:
            raise EdgeLLMError(_NONE)
        try:
            info = await self._load(name)
        except EdgeLLMError as error:
            self._show_failure(str(error))
            raise
        self._show_failure("")
        return info

    async def _load(self, name: str) -> ModelInfo:
        client = await self.client()
        async with self._lock:
            if name in self._names:
                return self.models[self._names[name]]
            report = _Report(model_name(name), self._show_activity, self._note)
            self._show_activity(f"loading {model_name(name)}…")
            self._loading = asyncio.ensure_future(client.load(name, self._load_options, report))
            try:
                await asyncio.wait([self._loading])
                if self._loading.cancelled():
                    raise EdgeLLMError(f"{model_name(name)} was not loaded: you stopped it")
                info = self._loading.result()
            finally:
                self._loading.cancel()
                self._loading = None
                self._show_activity("")
            self.models[info.name] = info
            self._names[name] = self._names[info.name] = info.name
            self._changed(None)
            return info

    def _show_activity(self, text: str) -> None:
        self.activity = text
        self._changed(None)

    def _show_failure(self, text: str) -> None:
        if text != self.failure:
            self.failure = text
            self._changed(None)

    def known(self, name: str | None) -> ModelInfo | None:
        """The model, if it is loaded already."""
        return self.models.get(self._names.get(name or "", ""))

    def context_length(self, name: str | None) -> int | None:
        """Tokens that a model's context holds; None while it is not loaded."""
        info = self.known(name)
        return info.context_length if info else None

    async def count_tokens(self, name: str | None, text: str) -> int | None:
        """How many tokens a text has; None while the model is not loaded."""
        info = self.known(name)
        if info is None:
            return None
        client = await self.client()
        return len(await client.tokenize(text, add_special=False, model=info.name))

    async def prompt_ids(self, chat: Chat, last: int | None) -> tuple[int, ...]:
        """A conversation up to a message as token ids."""
        path = chat.path(last) if last is not None else []
        info = await self.model(chat.conversation.model)
        client = await self.client()
        now = chat.conversation
        return await chat_ids(
            client, as_openai(now.system, path), info.name, thinking(now.settings)
        )

    def begin(
        self,
        chat: Chat,
        message: Message,
        model: str | None = None,
        begun: Begun | None = None,
        **settings: object,
    ) -> Generation:
        """Starts writing `message`, which is in the chat. model, settings: others than its own.
        begun: as in Generation."""
        name = model or chat.conversation.model
        generation = Generation(chat, message, SamplingParams(), self._save, begun)
        task = asyncio.create_task(self._run(generation, name, settings))
        self._running.setdefault(chat.id, []).append((generation, task))
        self._changed(generation)
        return generation

    def generation(self, chat: Chat, message: int | None = None) -> Generation | None:
        """What is being written in a conversation, or that one of its answers."""
        for generation, _ in self._running.get(chat.id, []):
            if message in (None, generation.message.id):
                return generation
        return None

    def busy(self) -> set[int]:
        """The conversations in which an answer is being written."""
        return set(self._running)

    def stop_loading(self) -> bool:
        """Ends the loading of a model, for which `model` raises then; whether one is loaded."""
        return self._loading is not None and self._loading.cancel()

    async def stop(self, chat: Chat) -> bool:
        """Ends the answers of a conversation, and returns when they are saved; whether any ran."""
        running = [task for _, task in self._running.get(chat.id, [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return bool(running)

    def memory(self) -> int | None:
        return self._engine.memory()

    async def close(self) -> None:
        tasks = [task for running in self._running.values() for _, task in running]
        tasks += [self._checking] if self._checking else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    async def _run(
        self, generation: Generation, name: str | None, settings: dict[str, object]
    ) -> None:
        chat = generation.chat
        try:
            info = await self.model(name)
            settings = {**chat.conversation.settings, **settings}
            generation.params = sampling_params(settings)
            generation.thinking = thinking(settings)
            generation.label(info.name)
            await generation.run(await self.client(), info.name)
        except asyncio.CancelledError:
            generation.end("abort")
        except Exception as error:
            generation.error = error if isinstance(error, EdgeLLMError) else _own(error)
            generation.end("error")
        finally:
            self._leave(generation)
        if generation.error is not None and self._checking is None:
            self._checking = asyncio.create_task(self._check_engine())

    def _leave(self, generation: Generation) -> None:
        self.acceptance[generation.message.id] = generation.acceptance
        self.errors.pop(generation.message.id, None)
        if generation.error is not None:
            self.errors[generation.message.id] = generation.error
        left = [pair for pair in self._running[generation.chat.id] if pair[0] is not generation]
        if left:
            self._running[generation.chat.id] = left
        else:
            del self._running[generation.chat.id]
        self._changed(generation)

    async def _check_engine(self) -> None:
        """Forgets an engine that no longer answers, so that the next request starts another."""
        client = self._client
        try:
            if client is not None:
                await client.models()
        except ConnectionFailed:
            self._client = None
            self.models.clear()
            self._names.clear()
            self._show_failure(_ENDED)
            self._note(_ENDED)
        finally:
            self._checking = None


def _own(error: Exception) -> EdgeLLMError:
    """What no room foresees ends one answer, and says what it was."""
    return EdgeLLMError(f"{type(error).__name__}: {error} (an error of edgellm itself)")
