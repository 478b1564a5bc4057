"""The engine in a child process: its crash is an error, its parent's end is its own."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from edgellm.client import ChildClient, child
from edgellm.completion import collect
from edgellm.errors import ConnectionFailed, EdgeLLMError
from edgellm.types import Request, SamplingParams, TokenEvent
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]
SCRIPTED = (sys.executable, "-m", "tests.client.scripted_engine")
GREEDY = SamplingParams(temperature=0)


async def events_of(client: ChildClient, request: Request) -> list[TokenEvent]:
    return [event async for event in client.submit(request)]


@pytest.fixture(autouse=True)
def from_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(child, "_START_SECONDS", PATIENCE)


def test_a_crash_is_an_error_and_the_engine_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setenv("SCRIPTED_DELAY", "0.5")  # the crash comes in the middle of an answer
        client = await ChildClient.start(SCRIPTED)
        try:
            folder = client.address.path
            assert folder is not None and folder.parent.stat().st_mode & 0o777 == 0o700
            assert folder.stat().st_mode & 0o777 == 0o600
            seen = []
            with pytest.raises(ConnectionFailed, match="the engine stopped.*SIGSEGV"):
                async for event in client.submit(Request("hi", GREEDY)):
                    seen.append(event)
                    if len(seen) == 2:
                        assert client._process is not None
                        os.kill(client._process.pid, signal.SIGSEGV)
            assert len(seen) >= 2 and not client.is_alive
            with pytest.raises(ConnectionFailed, match="SIGSEGV"):
                await client.models()
            monkeypatch.delenv("SCRIPTED_DELAY")
            await client.restart()
            assert collect(await events_of(client, Request("hi", GREEDY))).text == "x" * 60
        finally:
            await client.close()
        assert not folder.parent.exists() and not client.is_alive

    asyncio.run(main())


def test_the_child_waits_for_the_processor_behind_its_parent() -> None:
    async def main() -> None:
        client = await ChildClient.start(SCRIPTED)
        try:
            assert client.pid is not None
            behind = os.getpriority(os.PRIO_PROCESS, client.pid)
            assert behind == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)
            group = Path(f"/proc/{client.pid}/autogroup")  # there where Linux groups by session
            if group.exists() and os.geteuid() == 0:  # for others one change in 100 ms succeeds
                assert group.read_text().split()[-1] == str(behind)
        finally:
            await client.close()

    asyncio.run(main())


def test_a_child_that_cannot_start_says_why() -> None:
    command = (sys.executable, "-c", "raise SystemExit('no room')")
    with pytest.raises(
        EdgeLLMError, match=r"did not start: it ended with code 1; it said:\nno room"
    ):
        asyncio.run(ChildClient.start(command))


def has_ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_the_child_ends_with_its_parent() -> None:
    code = (
        "import asyncio, os\n"
        "from edgellm.client import ChildClient, child\n"
        f"child._START_SECONDS = {PATIENCE}\n"
        "async def main():\n"
        "    client = await ChildClient.start()\n"
        "    print(client._process.pid, client.address, flush=True)\n"
        "    os._exit(1)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    pid, socket = done.stdout.split()
    wait_until(lambda: has_ended(int(pid)))
    assert not Path(socket).parent.exists()


@pytest.mark.weights
def test_a_real_model(smollm2: Path) -> None:
    async def main() -> None:
        client = await ChildClient.start()
        try:
            info = await client.load(str(smollm2))
            assert (await client.details()).quantization == "Q4_1"
            ids = await client.chat_ids([{"role": "user", "content": "Hi"}])
            params = SamplingParams(temperature=0, max_tokens=8)
            first = collect(await events_of(client, Request(ids, params, model=info.name)))
            await client.restart()
            again = collect(await events_of(client, Request(ids, params, model=info.name)))
            assert first.token_ids == again.token_ids and len(first.token_ids) == 8
        finally:
            await client.close()

    asyncio.run(main())
