"""The same door over a socket: what LocalClient gives comes out of SocketClient unchanged."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from edgellm.client import Client, LocalClient, SocketClient
from edgellm.client.http import Address, parse_address
from edgellm.errors import (
    CatalogError,
    ConnectionFailed,
    ContextOverflow,
    EdgeLLMError,
    RequestError,
)
from edgellm.holes import Hole, SourceFile
from edgellm.server.listen import tcp_listener, unix_listener
from edgellm.server.settings import Settings
from edgellm.types import LoadOptions, Request, SamplingParams, TokenEvent
from tests.mock_model import LONG, MockModel, endless, make_manager, noise, says
from tests.server.serving import serving
from tests.waiting import PATIENCE

GREEDY = SamplingParams(temperature=0)
Body = Callable[[SocketClient, LocalClient], Coroutine[Any, Any, None]]


async def events_of(client: Client, request: Request) -> list[TokenEvent]:
    return [event async for event in client.submit(request)]


def both_ways(
    model: MockModel, folder: Path, body: Body, settings: Settings | None = None, **sizes: int
) -> None:
    """Runs `body` over a Unix socket and over TCP."""

    async def main() -> None:
        for listener in (unix_listener(folder / "s" / "edgellm.sock"), tcp_listener("::1", 0)):
            async with (
                LocalClient(make_manager(model, **sizes)) as local,
                serving(local, listener, settings),
                SocketClient(listener.where) as client,
            ):
                await body(client, local)

    asyncio.run(main())


def test_every_call_gives_what_it_gives_here(tmp_path: Path) -> None:
    async def body(client: SocketClient, local: LocalClient) -> None:
        is_client: Client = client
        assert await is_client.models() == await local.models()
        assert await client.tokenize("äb") == await local.tokenize("äb")
        assert await client.tokenize("b", add_special=False) == [98]
        assert await client.detokenize([0xC3, 0xA4, 98]) == "äb"
        assert await client.token_bytes([0xC3, 98]) == [b"\xc3", b"b"]
        assert await client.pieces([0xC3, 0xA4, 98]) == await local.pieces([0xC3, 0xA4, 98])
        messages = [{"role": "user", "content": "hi"}]
        assert await client.chat_prompt(messages) == "user:hi\nassistant:"
        assert await client.chat_ids(messages) == await local.chat_ids(messages)
        hole = Hole("ab", "yz", files=(SourceFile("a.py", "one"),))
        filled = await client.fim_prompt(hole, 4, suffix_limit=1)
        assert filled == await local.fim_prompt(hole, 4, suffix_limit=1) and filled.suffix_cut == 1
        assert await client.details() == await local.details()
        assert await client.stats() == await local.stats()
        await client.abort("nobody")

    both_ways(MockModel(says("ok")), tmp_path, body)


def test_events_come_out_unchanged(tmp_path: Path) -> None:
    params = SamplingParams(temperature=1.5, seed=3, n=3, max_tokens=7, logprobs=2)

    async def body(client: SocketClient, local: LocalClient) -> None:
        def told(events: list[TokenEvent]) -> Any:
            return sorted(
                (e.index, e.text, e.token_ids, e.logprobs, e.finish_reason) for e in events
            )

        request = Request("hi\ud800"[:2], params, request_id="mine")
        await events_of(local, request)  # so that the prompt is in the cache for both
        remote = await events_of(client, request)
        assert told(remote) == told(await events_of(local, request))
        last = remote[-1]
        assert last.timings is not None and last.usage is not None
        assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (3, 7)

    both_ways(MockModel(noise), tmp_path, body)


def test_the_scripted_error_and_the_requests_own(tmp_path: Path) -> None:
    async def body(client: SocketClient, local: LocalClient) -> None:
        with pytest.raises(ContextOverflow) as overflow:
            await events_of(client, Request("x" * 64))
        assert (overflow.value.prompt_tokens, overflow.value.context_length) == (65, 64)
        with pytest.raises(RequestError) as wrong:
            await events_of(client, Request("hi", SamplingParams(top_p=2.0)))
        assert wrong.value.field == "top_p"
        with pytest.raises(RequestError, match="'other'"):
            await events_of(client, Request("hi", model="other"))
        with pytest.raises(EdgeLLMError, match="MemoryError: too large"):
            await events_of(client, Request("hi", GREEDY))
        with pytest.raises(CatalogError, match="not in the catalogue"):
            await client.load("/etc/passwd")
        with pytest.raises(RequestError, match="files of the server"):
            await client.load("smollm2", LoadOptions(adapters=("/etc/passwd",)))

    def logits(tokens: list[int], num_prompt_tokens: int) -> Any:
        if len(tokens) > 5:
            raise MemoryError("too large")
        return says("xxxxxxxx")(tokens, num_prompt_tokens)

    both_ways(MockModel(logits), tmp_path, body)


def test_a_lost_connection_frees_the_sequence(tmp_path: Path) -> None:
    async def body(client: SocketClient, local: LocalClient) -> None:
        async with aclosing(client.submit(Request("hi", GREEDY))) as stream:
            async for _ in stream:
                break
        while (stats := (await local.stats())["mock"]).running or stats.waiting:
            await asyncio.sleep(0.01)
        assert stats.tokens_generated < 8000

    both_ways(endless(delay=0.01), tmp_path, body, **LONG)


def test_abort_by_id_ends_the_stream(tmp_path: Path) -> None:
    async def body(client: SocketClient, local: LocalClient) -> None:
        seen = []
        async for event in client.submit(Request("hi", GREEDY, request_id="mine")):
            seen.append(event)
            if len(seen) == 2:
                await client.abort("mine")
        assert seen[-1].finish_reason == "abort"

    both_ways(endless(delay=0.01), tmp_path, body, **LONG)


def test_loading_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Progress:
        def __init__(self) -> None:
            self.told: list[object] = []

        def advance(self, what: str, done: int, total: int | None) -> None:
            self.told.append((what, done, total))

        def count(self, what: str, done: int, total: int) -> None:
            self.told.append((what, done, total))

        def note(self, text: str) -> None:
            self.told.append(text)

    async def body(client: SocketClient, local: LocalClient) -> None:
        manager = local._manager
        (info,) = manager.models()
        asked: list[object] = []

        def load(name: str, options: LoadOptions | None, report: Any) -> Any:
            asked.append((name, options))
            report.advance("model.gguf", 5, None)
            report.count("kernels", 1, 2)
            report.note("half of it")
            if name == "broken":
                raise CatalogError("it is broken")
            return info

        monkeypatch.setattr(manager, "load", load)
        progress, options = Progress(), LoadOptions(threads=2, kv_cache_type="f32")
        assert await client.load("some.gguf", options, progress) == info
        assert progress.told == [("model.gguf", 5, None), ("kernels", 1, 2), "half of it"]
        assert asked == [("some.gguf", options)]
        with pytest.raises(CatalogError, match="it is broken"):
            await client.load("broken")
        await client.unload(info.name)
        assert await client.models() == ()

    both_ways(MockModel(says("ok")), tmp_path, body, Settings(any_path=True))


def test_leaving_ends_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(client: SocketClient, local: LocalClient) -> None:
        manager = local._manager
        (info,) = manager.models()
        begun, ended = threading.Event(), threading.Event()

        def load(name: str, options: LoadOptions | None, report: Any) -> Any:
            try:
                for number in range(10_000):
                    report.count("kernels", number, 10_000)
                    begun.set()
                    time.sleep(0.01)
            except EdgeLLMError:
                ended.set()
                raise
            return info

        monkeypatch.setattr(manager, "load", load)
        loading = asyncio.ensure_future(client.load("some.gguf"))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        loading.cancel()
        assert await asyncio.to_thread(ended.wait, PATIENCE / 2)

    both_ways(MockModel(says("ok")), tmp_path, body, Settings(any_path=True))


def test_keys_that_fit_in_no_header_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        listener, settings = unix_listener(tmp_path / "s"), Settings(api_keys=("sécret",))
        async with (
            LocalClient(make_manager(MockModel(noise))) as local,
            serving(local, listener, settings),
        ):
            assert await SocketClient(listener.where, "sécret").models()
            with pytest.raises(EdgeLLMError, match="Invalid API Key"):
                await SocketClient(listener.where, "secret").models()
            for key in ("secret\n", "se\ncret", "\0"):
                with pytest.raises(RequestError, match="API key"):
                    await SocketClient(listener.where, key).models()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:8080", Address(host="localhost", port=8080)),
        ("http://127.0.0.1:1", Address(host="127.0.0.1", port=1)),
        ("https://host", Address(host="host", port=443, tls=True)),
        ("run/a:1", Address(path=Path("run/a:1"))),
        ("a.sock", Address(path=Path("a.sock"))),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed, match="edgellm serve"):
        asyncio.run(SocketClient(str(tmp_path / "none.sock")).models())
    listener = tcp_listener("127.0.0.1", 0)
    listener.close()
    with pytest.raises(ConnectionFailed, match="edgellm serve"):
        asyncio.run(SocketClient(listener.where).models())
    for address in ("http://localhost:nothing", "http://..", f"http://{'a' * 64}", "http://"):
        with pytest.raises(RequestError, match="no address"):
            SocketClient(address)
    assert parse_address("http://bücher.example").name == "xn--bcher-kva.example:80"
