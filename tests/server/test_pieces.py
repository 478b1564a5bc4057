"""Pieces of a stream on their way to the socket: frames made ahead, and the short way out."""

import json
import queue
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, strategies as st

from edgellm.generation import Emit
from edgellm.server.protocol import Connection
from edgellm.server.routes import TextFrame, json_line, server_sent, typed_server_sent
from edgellm.types import Request, Timings, TokenEvent, Usage
from tests.mock_model import MockModel, make_manager, says
from tests.server.conftest import SAID
from tests.server.serving import Running, running

ASKED = {"messages": [{"role": "user", "content": "Why?"}], "temperature": 0, "stream": True}
NO_TIME = Timings(0.0, 0.0, 0.0)


@pytest.mark.parametrize("frame", [server_sent, typed_server_sent, json_line])
@given(text=st.text(st.characters(codec="utf-8") | st.sampled_from('"\\\n\0%')))
def test_a_frame_made_ahead_is_the_frame(frame: Callable[[Any], bytes], text: str) -> None:
    def part(said: str) -> dict[str, object]:
        return {"type": "delta", "delta": {"text": said}, "model": 'a"b'}

    assert TextFrame(frame, part)(text) == frame(part(text))


def asking(server: Running, version: str) -> socket.socket:
    """A connection on which a stream was asked for."""
    address = urlsplit(server.tcp)
    body = json.dumps(ASKED).encode()
    connection = socket.create_connection((address.hostname, address.port))
    connection.settimeout(20)
    head = f"POST /v1/chat/completions HTTP/{version}\r\nHost: localhost\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def stream(server: Running, version: str) -> tuple[bytes, bytes]:
    """Head and body of a stream, as they come off the socket."""
    with asking(server, version) as connection:
        read = b""
        while more := connection.recv(1 << 16):
            read += more
    found, _, rest = read.partition(b"\r\n\r\n")
    return found, rest


def unchunked(body: bytes) -> bytes:
    """RFC 9112, section 7.1."""
    found = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        found += body[:length]
        assert body[length : length + 2] == b"\r\n"
        body = body[length + 2 :]
        if not length:
            assert body == b""
            return found


class Gone:
    """A transport whose reader has gone."""

    def is_closing(self) -> bool:
        return True

    def write(self, data: bytes) -> None:
        raise AssertionError("nobody reads it")


@pytest.mark.parametrize("has_begun", [False, True])
def test_nothing_is_written_to_who_has_gone(has_begun: bool) -> None:
    """A reply that has not begun does so all the same: what follows it must not come first."""
    connection = Connection.__new__(Connection)
    connection.transport = Gone()  # type: ignore[assignment]
    connection.cycle = SimpleNamespace(response_started=has_begun, disconnected=False)
    assert connection.write_piece(b"x") == has_begun


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_what_is_on_the_wire(server: Running, version: str) -> None:
    head, body = stream(server, version)
    is_chunked = b"transfer-encoding: chunked" in head.lower()
    assert is_chunked == (version == "1.1")
    events = (unchunked(body) if is_chunked else body).split(b"\n\n")
    assert events[-2:] == [b"data: [DONE]", b""]
    chunks = [json.loads(event.removeprefix(b"data: ")) for event in events[:-2]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""} and deltas[-1] == {}
    assert [delta["content"] for delta in deltas[1:-1]] == list(SAID)
    assert len({(chunk["id"], chunk["model"], chunk["object"]) for chunk in chunks}) == 1


def test_events_of_a_step_are_one_chunk_of_a_frame_each(tmp_path: Path) -> None:
    manager = make_manager(MockModel(says("")))
    steps: queue.SimpleQueue[str] = queue.SimpleQueue()  # what each says, a letter an event
    over: list[Callable[[], None]] = []

    def engine(emit: Emit) -> None:
        while said := steps.get():
            for letter in said:
                emit(TokenEvent(0, letter, (1,)))
            over.pop()()
        emit(TokenEvent(0, "", (), finish_reason="stop", usage=Usage(1, 9), timings=NO_TIME))
        over.pop()()

    def submit(request: Request, emit: Emit) -> str:
        threading.Thread(target=engine, args=(emit,)).start()
        return "request"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manager, "submit", submit)
        patch.setattr(manager, "after_step", over.append)
        with running(manager, tmp_path) as own, asking(own, "1.1") as connection:
            steps.put("a")
            while b'"a"' not in connection.recv(1 << 16):
                pass
            for said in ("bcde", "f", "ghi"):
                steps.put(said)
                chunk = connection.recv(1 << 16)
                size, _, rest = chunk.partition(b"\r\n")
                assert int(size, 16) == len(rest) - len(b"\r\n")
                frames = rest.removesuffix(b"\r\n").split(b"\n\n")
                told = [json.loads(frame.removeprefix(b"data: ")) for frame in frames if frame]
                assert [each["choices"][0]["delta"]["content"] for each in told] == [*said]
            steps.put("")
            assert b"data: [DONE]" in b"".join(iter(lambda: connection.recv(1 << 16), b""))
