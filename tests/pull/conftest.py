"""A home of its own for each test, and a web server on this machine whose faults can be chosen."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from edgellm.catalog import CatalogEntry
from edgellm.pull import url
from edgellm.sources import UrlSource
from tests.waiting import PATIENCE

CONTENT = b"GGUF" + bytes(range(256)) * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """What it serves at any path, how, and what it was asked.

    drop_after: bytes of a body after which it hangs up, in turn for each request.
    stall_after: bytes of a body after which nothing more comes until `released` is set.
    points_to: addresses where the file is instead, one for each request.
    """

    address: str
    content: bytes = CONTENT
    etag: str | None = '"one"'
    status: int = 200
    ranges: bool = True
    says_length: bool = True
    points_to: list[str] = field(default_factory=list)
    range_offset: int = 0
    drop_after: list[int] = field(default_factory=list)
    stall_after: int | None = None
    released: threading.Event = field(default_factory=threading.Event)
    asked: list[dict[str, str]] = field(default_factory=list)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(url, "PAUSE", 0.0)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(dict(self.headers))
            if state.points_to:
                self.send_response(302)
                self.send_header("Location", state.points_to.pop())
                self.end_headers()
                return
            start = self._start()
            body = state.content[start:]
            self.send_response(206 if start else state.status)
            if state.etag:
                self.send_header("ETag", state.etag)
            if start:
                first, last = start + state.range_offset, len(state.content) - 1
                self.send_header("Content-Range", f"bytes {first}-{last}/{last + 1}")
            if state.says_length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            drop = state.drop_after.pop(0) if state.drop_after else None
            if state.stall_after is not None:
                self.wfile.write(body[: state.stall_after])
                state.released.wait(PATIENCE)
                return
            self.wfile.write(body[:drop])

        def _start(self) -> int:
            wanted = self.headers.get("Range")
            if not (state.ranges and wanted and self.headers.get("If-Range") == state.etag):
                return 0
            return int(wanted.removeprefix("bytes=").removesuffix("-"))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Server(f"http://127.0.0.1:{web.server_port}")
    thread = threading.Thread(target=web.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield state
    finally:
        state.released.set()
        web.shutdown()
        thread.join()
        web.server_close()


class Recorder:
    """A Report that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[tuple[str, int, int | None]] = []

    def advance(self, what: str, done: int, total: int | None) -> None:
        self.steps.append((what, done, total))

    def count(self, what: str, done: int, total: int) -> None:
        self.steps.append((what, done, total))

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def entry(home: Path, server: Server) -> CatalogEntry:
    return CatalogEntry("model", ((UrlSource(f"{server.address}/m.gguf"),),), sha256=SHA)


def partial_files(home: Path) -> list[str]:
    return [p.name for p in (home / "models/partial").rglob("*") if p.suffix != ".lock"]
