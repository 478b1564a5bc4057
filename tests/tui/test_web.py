"""The chat in a browser: who may open it, and that a real browser shows it."""

import asyncio
import gc
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.tui.piloted import WAIT, asynchronous

aiohttp = pytest.importorskip("aiohttp", reason="the extra `web` is not installed")
pytest.importorskip("textual_serve", reason="the extra `web` is not installed")

from aiohttp import ClientSession, CookieJar, WSServerHandshakeError, web  # noqa: E402

from edgellm.tui.web import HOST, ChatServer, free_port  # noqa: E402

APP = """
from textual.app import App
from textual.widgets import Static

class Page(App):
    def compose(self):
        yield Static("here")

Page().run()
"""
# textual-serve asks a page's process to end, and closes no pipe to it.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed transport"
)

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[ChatServer]:
    before = set(psutil.Process().children())
    (folder / "page.py").write_text(APP)
    server = ChatServer([sys.executable, str(folder / "page.py")], free_port())
    runner = web.AppRunner(await server.application())
    await runner.setup()
    await web.TCPSite(runner, HOST, server.port).start()
    try:
        yield server
    finally:
        await runner.cleanup()
        # The processes of the pages end by themselves.
        await until(lambda: set(psutil.Process().children()) <= before)
        gc.collect()  # what textual-serve leaves for it, while the warnings of that are expected


@asynchronous
async def test_only_the_printed_address_opens_it_and_once(tmp_path: Path) -> None:
    jar = CookieJar(unsafe=True)  # takes cookies of an address that is no name
    async with (
        serving(tmp_path) as server,
        ClientSession(cookie_jar=jar) as owner,
        ClientSession() as other,
    ):
        for path in ("/", "/?key=guess", "/ws", "/ws/guess", "/download/x"):
            async with other.get(server.public_url + path) as answer:
                assert answer.status == 403, path
        async with owner.get(server.address) as answer:
            assert answer.status == 200
            page = await answer.text()
            assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        async with other.get(server.address) as answer:
            assert answer.status == 403
        (ticket,) = re.findall(r"ws://[\d.:]+/ws/[\w-]+", page)
        for origin in (None, "http://evil.example", "null"):
            headers = {"Origin": origin} if origin else {}
            with pytest.raises(WSServerHandshakeError):
                await owner.ws_connect(ticket, headers=headers)
        headers = {"Origin": server.public_url}
        with pytest.raises(WSServerHandshakeError):
            await other.ws_connect(ticket, headers=headers)
        async with owner.ws_connect(ticket + "?width=80&height=24", headers=headers) as socket:
            message = await asyncio.wait_for(socket.receive(), WAIT)
            assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT)
        with pytest.raises(WSServerHandshakeError):
            await owner.ws_connect(ticket, headers=headers)


@asynchronous
async def test_other_hosts_names_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, ClientSession() as session:
        for host in ("evil.example", f"localhost:{server.port}", HOST):
            async with session.get(server.address, headers={"Host": host}) as answer:
                assert answer.status == 403, host


@pytest.mark.skipif(BROWSER is None, reason="no chromium here to open the page with")
@asynchronous
async def test_a_browser_shows_it(tmp_path: Path) -> None:
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/b"]
    async with serving(tmp_path) as server:
        browser = await asyncio.create_subprocess_exec(
            *(BROWSER, *options, "--remote-debugging-port=0", server.address),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port_file = tmp_path / "b" / "DevToolsActivePort"
            await until(lambda: port_file.exists() and port_file.read_text().count("\n"))
            async with ClientSession() as session:
                await page_says(session, port_file.read_text().split()[0], "-first-byte")
        finally:
            browser.terminate()
            await browser.wait()


async def page_says(session: ClientSession, port: str, wanted: str) -> None:
    """Waits until the class of the page's body is the one wanted: its terminal shows something."""
    pages: list[dict[str, str]] = []
    end = time.monotonic() + WAIT
    while not pages:
        assert time.monotonic() < end, "the browser has no page"
        async with session.get(f"http://{HOST}:{port}/json") as answer:
            pages = [entry for entry in await answer.json() if entry["type"] == "page"]
    ask = {
        "id": 1,
        "method": "Runtime.evaluate",
        "params": {"expression": "document.body.className"},
    }
    async with session.ws_connect(pages[0]["webSocketDebuggerUrl"]) as tools:
        end = time.monotonic() + WAIT
        said = ""
        while wanted not in said.split():
            assert time.monotonic() < end, f"the page's body has class {said!r}"
            await asyncio.sleep(0.1)
            await tools.send_json(ask)
            said = (await tools.receive_json())["result"]["result"].get("value", "")


async def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        await asyncio.sleep(0.05)
