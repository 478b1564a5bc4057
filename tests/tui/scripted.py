"""A client, an engine and a library without weights: what the model says is written in a test."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from edgellm.client import Client
from edgellm.errors import ContextOverflow, EdgeLLMError
from edgellm.tui.doors import Advance, Note, Offer
from edgellm.types import (
    LoadOptions,
    Message,
    Messages,
    ModelDetails,
    ModelInfo,
    Request,
    Stats,
    Timings,
    TokenEvent,
    TokenLogprob,
    Usage,
)

CONTEXT = 4096
END = 0x110000  # the id after all characters


class ScriptedClient:
    """A token is a character. `answer` gives the text for a prompt; the end is a token too.

    delay: seconds between pieces of so many tokens. pause_at: after so many nothing more comes.
    gate: while it is cleared, nothing is written. loads: while it is cleared, the model "large"
    does not come. error: raised by whatever is asked next, and from then on.
    """

    def __init__(self, answer: Callable[[str], str] = lambda prompt: "An *answer*.") -> None:
        self.answer = answer
        self.template = ""  # the model's, which tells how it writes its thoughts
        self.delay = 0.0
        self.pause_at: int | None = None
        self.piece = 1
        self.gate = asyncio.Event()
        self.gate.set()
        self.loads = asyncio.Event()
        self.loads.set()
        self.error: Exception | None = None
        self.requests: list[Request] = []
        self.asked: Messages = ()  # what the template was given last
        self.variables: Mapping[str, Any] | None = None  # and with which switches
        self.loaded: dict[str, ModelInfo] = {}
        self.running = 0
        self.closed = False

    async def submit(self, request: Request) -> AsyncGenerator[TokenEvent, None]:
        self._check()
        self.requests.append(request)
        prompt = "".join(map(_character, request.prompt))
        if len(prompt) > CONTEXT:
            raise ContextOverflow(len(prompt), CONTEXT)
        text = self.answer(prompt)
        most = request.params.max_tokens or len(text)
        self.running += 1
        try:
            for count, character in enumerate(text[:most], 1):
                if count % self.piece == 0:
                    await asyncio.sleep(self.delay)
                await self.gate.wait()
                if self.pause_at is not None and count > self.pause_at:
                    await asyncio.Event().wait()
                self._check()
                is_last = count == most < len(text)
                yield _event(request, character, len(prompt), count, "length" if is_last else None)
            if most >= len(text):
                yield _event(request, "", len(prompt), len(text) + 1, "stop")
        finally:
            self.running -= 1

    async def abort(self, request_id: str) -> None:
        self._check()

    async def models(self) -> tuple[ModelInfo, ...]:
        self._check()
        return tuple(self.loaded.values())

    async def load(
        self, name_or_path: str, options: LoadOptions | None = None, report: Any = None
    ) -> ModelInfo:
        self._check()
        if name_or_path == "broken":
            raise EdgeLLMError("the file is broken")
        if name_or_path == "large" and report is not None:
            report.count("compiling kernels", 3, 7)
            await self.loads.wait()
        info = ModelInfo(name_or_path, f"/{name_or_path}.gguf", "llama", "cpu", CONTEXT, END + 1, 0)
        self.loaded[name_or_path] = info
        return info

    async def unload(self, name: str) -> None:
        del self.loaded[name]

    async def tokenize(
        self,
        text: str,
        add_special: bool = True,
        parse_special: bool = True,
        model: str | None = None,
    ) -> list[int]:
        return [ord(character) for character in text]

    async def details(self, model: str | None = None) -> ModelDetails:
        text = ("tiny", "llama", self.template, "", "")
        return ModelDetails(*text, None, False, (END,), {}, 0, 0, "F32", CONTEXT, 64)

    async def detokenize(self, ids: Sequence[int], model: str | None = None) -> str:
        return "".join(map(_character, ids))

    async def token_bytes(self, ids: Sequence[int], model: str | None = None) -> list[bytes]:
        return [_character(token).encode() for token in ids]

    async def chat_prompt(
        self,
        messages: Messages,
        tools: list[Message] | None = None,
        model: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        return await self.detokenize(await self.chat_ids(messages))

    async def chat_ids(
        self,
        messages: Messages,
        tools: list[Message] | None = None,
        model: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> tuple[int, ...]:
        self._check()
        self.asked, self.variables = messages, variables
        said = "".join(f"<{m['role']}>{m['content']}" for m in messages)
        return tuple(ord(character) for character in said + "<assistant>")

    async def pieces(self, ids: Sequence[int], model: str | None = None) -> tuple[str, ...]:
        return tuple(map(_character, ids))

    async def stats(self) -> Mapping[str, Stats]:
        self._check()
        return {name: Stats(self.running, 0, 3, 5, 2, (7,)) for name in self.loaded}

    async def close(self) -> None:
        self.closed = True

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


def _character(token: int) -> str:
    return "<end>" if token == END else chr(token)


def _event(request: Request, text: str, prompt_tokens: int, count: int, reason: Any) -> TokenEvent:
    token = ord(text) if text else END
    logprobs = None
    if request.params.logprobs is not None:
        top = ((token, -0.1), (ord("X"), -2.5), (ord("ä"), -3.0))
        logprobs = (TokenLogprob(token, text, -0.1, top),)
    usage = Usage(prompt_tokens, count) if reason else None
    timings = Timings(0.0, 0.25, 0.5) if reason else None
    return TokenEvent(0, text, (token,), logprobs, reason, usage, timings)


class ScriptedEngine:
    """Gives the clients in turn: one more each time that an engine has died. error: why it does
    not start."""

    def __init__(self, *clients: ScriptedClient, error: EdgeLLMError | None = None) -> None:
        self.clients = list(clients)
        self.error = error
        self.starts = 0

    async def start(self) -> Client:
        if self.error is not None:
            raise self.error
        self.starts += 1
        return self.clients[min(self.starts, len(self.clients)) - 1]

    def memory(self) -> int | None:
        return 312_000_000


class ScriptedLibrary:
    """Two models, the second of which must be pulled; `pulling` does that."""

    def __init__(self, stored: bool = True) -> None:
        self.stored = {"tiny"} if stored else set[str]()
        self.pulling: Callable[[Advance, Note], None] = lambda advance, note: None

    def offers(self) -> tuple[Offer, ...]:
        rows = (("tiny", "a tiny model", 98_362_432), ("large", "a large model", 2_497_281_120))
        return tuple(
            Offer(name, text, size, f"/{name}.gguf" if name in self.stored else None)
            for name, text, size in rows
        )

    def pull(self, name: str, advance: Advance, note: Note) -> str:
        self.pulling(advance, note)
        self.stored.add(name)
        return name.rpartition("/")[2]
