"""Suggestions: the newest request wins, and one that nobody waits for frees the model."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from edgellm.client import LocalClient
from edgellm.holes import Hole
from edgellm.lsp.suggest import Suggester, Wanted
from tests.mock_model import MockModel, make_manager, says
from tests.waiting import PATIENCE

Body = Callable[[Suggester, LocalClient], Awaitable[None]]
HOLE = Hole("def f():\n", "\n", "    ")


@pytest.fixture(autouse=True)
def no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.lsp.suggest._WRITE_SECONDS", PATIENCE)


def run(model: MockModel, body: Body, delay: float = 0.0) -> None:
    async def main() -> None:
        manager = make_manager(model, context_length=512, num_blocks=512)
        async with LocalClient(manager) as client:
            await body(Suggester(client, "mock", delay), client)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


async def idle(client: LocalClient) -> None:
    """Returns when the engine has nothing to do."""
    while (await client.stats())["mock"].running:
        await asyncio.sleep(0.001)


async def busy(client: LocalClient) -> None:
    while not (await client.stats())["mock"].running:
        await asyncio.sleep(0.001)


def test_where_a_suggestion_ends() -> None:
    async def body(suggester: Suggester, _: LocalClient) -> None:
        assert await suggester.suggest("d", Wanted(HOLE)) == "return 1\n    x\n  y"
        assert await suggester.suggest("d", Wanted(HOLE, indent=4)) == "return 1\n    x"
        assert await suggester.suggest("d", Wanted(HOLE, one_line=True)) == "return 1"

    run(MockModel(says("return 1\n    x\n  y\n\n")), body)


def test_a_newer_request_takes_the_place_of_an_older_one() -> None:
    model = MockModel(says("x" * 60), delay=0.3)

    async def body(suggester: Suggester, client: LocalClient) -> None:
        older = asyncio.ensure_future(suggester.suggest("d", Wanted(HOLE)))
        other = asyncio.ensure_future(suggester.suggest("e", Wanted(HOLE)))
        await busy(client)
        newer = asyncio.ensure_future(suggester.suggest("d", Wanted(HOLE)))
        assert await older == ""
        model.delay = 0.0
        assert await newer == await other == "x" * 60

    run(model, body)


def test_cancelling_frees_the_model() -> None:
    async def body(suggester: Suggester, client: LocalClient) -> None:
        asked = asyncio.ensure_future(suggester.suggest("d", Wanted(HOLE)))
        await busy(client)
        asked.cancel()
        assert (await asyncio.gather(asked, return_exceptions=True))[0].__class__ is (
            asyncio.CancelledError
        )
        await idle(client)
        assert (await client.stats())["mock"].tokens_generated < 60

    run(MockModel(says("x" * 60), delay=0.3), body)


def test_keystrokes_in_a_row_ask_once() -> None:
    model = MockModel(says("x"))

    async def body(suggester: Suggester, _: LocalClient) -> None:
        asked = []
        for _i in range(5):
            asked.append(asyncio.ensure_future(suggester.suggest("d", Wanted(HOLE))))
            await asyncio.sleep(0)
        assert [await one for one in asked] == ["", "", "", "", "x"]
        asked = [asyncio.ensure_future(suggester.suggest("d", Wanted(HOLE), at_once=True))]
        assert await asked[0] == "x"

    run(model, body, delay=1.0)
    assert len({seq for batch in model.batches for seq, _ in batch}) == 2
