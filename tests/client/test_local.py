"""The asynchronous door: events, aborts, errors, several models. With a scripted model."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest

from edgellm.client import LocalClient
from edgellm.completion import collect
from edgellm.errors import ContextOverflow, EdgeLLMError, RequestError
from edgellm.types import Request, SamplingParams, TokenEvent
from tests.mock_model import BOS, EOG, LONG, MockModel, endless, make_manager, noise, says
from tests.waiting import PATIENCE

GREEDY = SamplingParams(temperature=0)
Body = Callable[[LocalClient], Coroutine[Any, Any, None]]


def with_client(model: MockModel, body: Body, **sizes: int) -> None:
    async def main() -> None:
        async with LocalClient(make_manager(model, **sizes)) as client:
            await body(client)

    asyncio.run(main())
    assert model.is_closed


async def events_of(stream: AsyncIterator[TokenEvent]) -> list[TokenEvent]:
    return [event async for event in stream]


def test_text_comes_piece_by_piece() -> None:
    async def body(client: LocalClient) -> None:
        events = await events_of(client.submit(Request("hi", GREEDY)))
        assert [event.text for event in events] == ["b", "l", "u", "e", ""]
        assert [event.finish_reason for event in events] == [None] * 4 + ["stop"]
        assert collect(events).usage.prompt_tokens == 3  # with BOS

    with_client(MockModel(says("blue")), body)


def test_whoever_follows_is_told_the_same() -> None:
    async def body(client: LocalClient) -> None:
        seen: list[TokenEvent] = []
        await client.follow(Request("hi", SamplingParams(temperature=0, n=3)), seen.append)
        for index in range(3):
            own = [event for event in seen if event.index == index]
            assert [event.text for event in own] == ["b", "l", "u", "e", ""]
        with pytest.raises(RequestError, match="top_p"):
            await client.follow(Request("hi", SamplingParams(top_p=2.0)), seen.append)

    with_client(MockModel(says("blue")), body)


@pytest.mark.parametrize("ends_by", ["an error of its own", "being cancelled"])
def test_whoever_stops_following_is_told_nothing_more(ends_by: str) -> None:
    async def body(client: LocalClient) -> None:
        seen: list[TokenEvent] = []

        def take(event: TokenEvent) -> None:
            seen.append(event)
            if len(seen) == 3 and ends_by == "an error of its own":
                raise ValueError("enough")
            if len(seen) == 3:
                following.cancel()

        following = asyncio.ensure_future(client.follow(Request("hi", GREEDY), take))
        with pytest.raises((ValueError, asyncio.CancelledError)):
            await following
        told = len(seen)
        while (stats := (await client.stats())["mock"]).running:
            await asyncio.sleep(0.01)
        assert stats.tokens_generated < 8000
        assert len(seen) == told

    with_client(endless(delay=0.01), body, **LONG)


def test_several_answers_are_told_apart() -> None:
    async def body(client: LocalClient) -> None:
        params = SamplingParams(temperature=1.5, seed=3, n=6, max_tokens=7)
        done = collect(await events_of(client.submit(Request("hi", params))))
        texts = {done.token_ids, *(other.token_ids for other in done.others)}
        assert len(texts) == 6 and all(len(tokens) == 7 for tokens in texts)
        params = SamplingParams(temperature=1.5, seed=3, max_tokens=7)
        alone = collect(await events_of(client.submit(Request("hi", params))))
        assert alone.token_ids == done.token_ids

    with_client(MockModel(noise), body)


def test_without_a_seed_two_answers_differ() -> None:
    async def body(client: LocalClient) -> None:
        request = Request("hi", SamplingParams(temperature=1.5, max_tokens=20))
        first, second = [collect(await events_of(client.submit(request))) for _ in range(2)]
        assert first.token_ids != second.token_ids

    with_client(MockModel(noise), body)


def test_abort_by_id() -> None:
    async def body(client: LocalClient) -> None:
        seen = []
        async for event in client.submit(Request("hi", GREEDY, request_id="mine")):
            seen.append(event)
            if len(seen) == 3:
                await client.abort("mine")
        assert seen[-1].finish_reason == "abort"
        await client.abort("nobody")

    with_client(endless(delay=0.01), body, **LONG)


def test_leaving_the_loop_aborts() -> None:
    async def body(client: LocalClient) -> None:
        async with aclosing(client.submit(Request("hi", GREEDY))) as stream:
            async for _ in stream:
                break
        while (stats := (await client.stats())["mock"]).running:
            await asyncio.sleep(0.01)
        assert stats.tokens_generated < 8000

    with_client(endless(delay=0.01), body, **LONG)


@pytest.mark.parametrize(
    ("request_", "kind", "field"),
    [
        (Request("hi", SamplingParams(top_p=2.0)), RequestError, "top_p"),
        (Request("x" * 64), ContextOverflow, "prompt"),
        (Request(()), RequestError, "prompt"),
        (Request((5, 258)), RequestError, "prompt"),
        (Request((-1,)), RequestError, "prompt"),
        (Request("hi", model="other"), RequestError, "model"),
    ],
)
def test_a_request_that_cannot_run_says_which_part(
    request_: Request, kind: type[RequestError], field: str
) -> None:
    async def body(client: LocalClient) -> None:
        with pytest.raises(kind) as found:
            await events_of(client.submit(request_))
        assert found.value.field == field
        assert collect(await events_of(client.submit(Request("hi", GREEDY)))).text == "ok"

    with_client(MockModel(says("ok")), body)


def test_a_failed_step_is_the_requests_error() -> None:
    def logits(tokens: list[int], num_prompt_tokens: int) -> Any:
        if len(tokens) > 5:
            raise MemoryError("too large")
        return says("xxxxxxxx")(tokens, num_prompt_tokens)

    async def body(client: LocalClient) -> None:
        with pytest.raises(EdgeLLMError, match="MemoryError: too large"):
            await events_of(client.submit(Request("hi", GREEDY)))

    with_client(MockModel(logits), body)


def test_special_tokens_of_a_text_and_of_a_chat() -> None:
    async def body(client: LocalClient) -> None:
        assert await client.tokenize("ab") == [BOS, 97, 98]
        assert await client.tokenize("ab", add_special=False) == [97, 98]
        assert await client.pieces([97, *"é".encode(), EOG]) == ("a", "", "é", "<special>")
        assert await client.pieces([97, 0xC3]) == ("a", "\ufffd")
        assert await client.pieces([]) == ()
        ids = await client.chat_ids([{"role": "user", "content": "hi"}])
        assert ids == (BOS, *b"user:hi\nassistant:")
        assert collect(await events_of(client.submit(Request(ids, GREEDY)))).text == "ok"

    with_client(MockModel(says("ok")), body)


def test_models_by_name() -> None:
    async def main() -> None:
        first, second = MockModel(says("one")), MockModel(says("two"))
        manager = make_manager(second, "b", make_manager(first, "a"))
        async with LocalClient(manager) as client:
            assert [info.name for info in await client.models()] == ["a", "b"]
            with pytest.raises(RequestError, match="loaded: a, b"):
                await events_of(client.submit(Request("hi", GREEDY)))
            done = collect(await events_of(client.submit(Request("hi", GREEDY, model="b"))))
            assert done.text == "two"
            await client.unload("a")
            assert first.is_closed and not second.is_closed
            assert collect(await events_of(client.submit(Request("hi", GREEDY)))).text == "two"
            with pytest.raises(RequestError, match="'a'"):
                await client.unload("a")

    asyncio.run(main())


def test_closing_ends_what_runs() -> None:
    async def main() -> None:
        client = LocalClient(make_manager(endless(delay=0.01), **LONG))
        seen = []
        async for event in client.submit(Request("hi", GREEDY)):
            seen.append(event)
            if len(seen) == 2:
                await client.close()
        assert seen[-1].finish_reason == "abort"
        assert await client.models() == ()

    asyncio.run(main())


def test_cancelling_does_not_wait_for_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    manager = make_manager(MockModel(says("ok")))
    monkeypatch.setattr(manager, "load", lambda *_: release.wait(2 * PATIENCE))

    async def main() -> None:
        async with LocalClient(manager) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.load("slow"), 0.05)

    begun = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - begun < PATIENCE
    release.set()


def test_cancelling_while_a_prompt_is_read_leaves_nothing_behind() -> None:
    reading, go_on = threading.Event(), threading.Event()
    manager = make_manager(endless(delay=0.01), **LONG)
    submit = manager.submit

    def slowly(*arguments: Any) -> str:
        reading.set()
        go_on.wait(PATIENCE)
        return submit(*arguments)

    async def main() -> None:
        async with LocalClient(manager) as client:
            manager.submit = slowly  # type: ignore[method-assign,assignment]
            task = asyncio.ensure_future(events_of(client.submit(Request("hi", GREEDY))))
            await asyncio.to_thread(reading.wait, PATIENCE)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            while not (stats := (await client.stats())["mock"]).steps or stats.running:
                await asyncio.sleep(0.01)
            assert stats.tokens_generated < 8000

    asyncio.run(main())


def test_scores_come_from_the_same_path() -> None:
    manager = make_manager(MockModel(noise))
    rows: dict[int, Any] = {}

    def take(start: int, block: Any) -> None:
        rows.update({start + i: row.copy() for i, row in enumerate(block)})

    manager.score([1, 2, 3, 4], take, start=1)
    assert list(rows) == [1, 2, 3]
    np.testing.assert_array_equal(rows[3], noise([1, 2, 3, 4], 4))
    for ids, start in (([], 0), ([1], 1), ([1], -1), ([999], 0)):
        with pytest.raises(RequestError):
            manager.score(ids, take, start)
    with pytest.raises(ContextOverflow):
        manager.score([1] * 65, take)
    manager.close()
