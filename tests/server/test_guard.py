"""Who may ask, how much, and for how long. Raw bytes where a client library would be too polite."""

import asyncio
import gzip
import json
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgellm.client import LocalClient
from edgellm.server.listen import tcp_listener, unix_listener
from edgellm.server.protocol import Connection
from edgellm.server.settings import Settings
from tests.mock_model import LONG, MockModel, endless, make_manager, says
from tests.server.serving import Running, running, serving
from tests.waiting import PATIENCE, wait_until

CHAT = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}


def raw(server: Running, data: bytes, unix: bool = False) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of what the server says to these bytes before it closes."""
    family = socket.AF_UNIX if unix else socket.AF_INET
    host, _, port = server.tcp.removeprefix("http://").partition(":")
    with closing(socket.socket(family)) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(server.unix if unix else (host, int(port)))
        sock.sendall(data)
        answer = b""
        while piece := sock.recv(1 << 16):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(status.split()[1]), headers, body


def get(target: str, *headers: str, method: str = "GET") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def post(target: str, body: bytes, *headers: str) -> bytes:
    return get(target, f"Content-Length: {len(body)}", *headers, method="POST") + body


LOCAL = "Host: localhost"


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost/v1/models", "localhost", 200),
        ("HTTPS://LOCALHOST:80/v1/models?a=b", "evil.example", 200),  # the target's name counts
        ("http://evil.example/v1/models", "localhost", 403),
        ("http://localhost@evil.example/v1/models", "localhost", 403),
        ("http:///v1/models", "localhost", 403),
        ("http://localhost", "localhost", 200),
        ("http://localhost?a=b", "localhost", 200),
        ("http://localhost/none", "localhost", 404),
        ("ftp://localhost/v1/models", "localhost", 404),
        ("http:localhost/v1/models", "localhost", 404),
    ],
)
def test_a_target_may_be_a_whole_address(
    server: Running, target: str, host: str, status: int
) -> None:
    assert raw(server, get(target, f"Host: {host}"))[0] == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Host: localhost"], 200),
        (["Host: LOCALHOST:8080"], 200),
        (["Host: 127.0.0.1:9"], 200),
        (["Host: [::1]:9"], 200),
        (["Host: app.localhost"], 200),
        (["Host: evil.example"], 403),
        (["Host: localhost.evil.example"], 403),
        (["Host: 127.0.0.1.evil.example"], 403),
        (["Host: localhost@evil.example"], 403),
        (["Host: "], 403),
        ([LOCAL, "Origin: http://localhost:3000"], 200),
        ([LOCAL, "Origin: http://127.0.0.1"], 200),
        ([LOCAL, "Origin: https://evil.example"], 403),
        ([LOCAL, "Origin: null"], 403),
        ([LOCAL, "Origin: http://[bad"], 403),
        ([LOCAL, "Authorization: Bearer undefined"], 200),
    ],
)
def test_names_of_this_machine_alone(server: Running, headers: list[str], status: int) -> None:
    found, answered, _ = raw(server, get("/v1/models", *headers))
    assert found == status
    assert not [name for name in answered if name.startswith("access-control")]


def test_a_unix_socket_is_called_by_any_name(server: Running) -> None:
    assert raw(server, get("/health", "Host: whatever"), unix=True)[0] == 200


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        ("/v1/chat/completions", ["error", "message"]),
        ("/completion", ["error", "message"]),
        ("/v1/messages", ["error", "message"]),
        ("/edgellm/v1/submit", ["error", "message"]),
        ("/api/chat", ["error"]),
    ],
)
@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"\xff", b'"x"', b"[" * 100_000, b'{"messages": 5, "prompt": {}}']
)
def test_bad_bodies_are_errors_of_the_apis_own_shape(
    server: Running, target: str, shape: list[str], body: bytes
) -> None:
    status, _, answer = raw(server, post(target, body, LOCAL))
    assert status == 400
    told: Any = json.loads(answer)
    for key in shape:
        told = told[key]
    assert isinstance(told, str) and told


def test_what_is_nowhere(server: Running) -> None:
    status, _, body = raw(server, get("/nothing", LOCAL))
    assert status == 404 and json.loads(body)["error"]["type"] == "not_found_error"
    assert "'/nothing'" in json.loads(body)["error"]["message"]
    assert raw(server, get("/nothing", LOCAL, method="HEAD"))[::2] == (404, b"")
    assert raw(server, get("/nothing", LOCAL, method="PUT"))[0] == 404
    assert raw(server, get("/v1/chat/completions", LOCAL))[0] == 405
    assert raw(server, get("/../../etc/passwd", LOCAL))[0] == 404
    assert raw(server, get("/", LOCAL, method="HEAD"))[::2] == (200, b"")
    assert raw(server, get("/health", LOCAL, method="OPTIONS"))[0] == 403
    assert raw(server, b"nonsense\r\n\r\n")[0] == 400
    assert raw(server, get("/health", LOCAL, "X: " + "y" * 70_000))[0] == 431


def test_a_body_that_is_packed_is_refused(server: Running) -> None:
    body = gzip.compress(json.dumps({"content": "hi"}).encode())
    status, _, answer = raw(server, post("/tokenize", body, LOCAL, "Content-Encoding: gzip"))
    assert status == 415 and b"Content-Encoding is 'gzip'" in answer
    status, _, answer = raw(server, post("/tokenize", body, LOCAL))
    assert status == 400 and b"not UTF-8" in answer
    plain = post("/tokenize", b'{"content": "hi"}', LOCAL, "Content-Encoding: identity")
    assert raw(server, plain)[0] == 200


def test_numbers_longer_than_are_read(server: Running) -> None:
    status, _, answer = raw(server, post("/tokenize", b"[" + b"9" * 5000 + b"]", LOCAL))
    assert status == 400 and b"digits" in answer


def test_a_connection_outlives_errors_whose_body_was_read(server: Running) -> None:
    asked = [
        post("/tokenize", b"{nonsense", LOCAL),
        get("/nothing", LOCAL),
        get("/tokenize", LOCAL),
        post("/tokenize", b'{"content": 5}', LOCAL),
    ]
    kept = b"".join(each.replace(b"Connection: close\r\n", b"") for each in asked)
    status, _, rest = raw(server, kept + post("/tokenize", b'{"content": "hi"}', LOCAL))
    others = [int(text) for text in re.findall(rb"HTTP/1.1 (\d+)", rest)]
    assert [status, *others] == [400, 404, 405, 400, 200]


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with keys, an origin and small limits."""
    settings = Settings(
        api_keys=("first", "sécond"),
        hosts=("my.machine",),
        origins=("https://my.page",),
        max_body=2000,
        max_messages=3,
        max_requests=1,
    )
    manager = make_manager(MockModel(says("x" * 60)))
    with running(manager, tmp_path_factory.mktemp("s"), settings) as found:
        yield found


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with short deadlines; its model goes on for minutes."""
    manager = make_manager(endless(delay=0.02), **LONG)
    settings = Settings(deadline=2.0, read_deadline=2.0)
    with running(manager, tmp_path_factory.mktemp("s"), settings) as found:
        yield found


KEY = "Authorization: Bearer first"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 401),
        (["Authorization: Bearer undefined"], 401),
        (["Authorization: Basic first"], 401),
        (["Authorization: Bearer "], 401),
        ([KEY], 200),
        (["authorization: bearer first"], 200),
        (["x-api-key: first"], 200),
        (["x-api-key: " + "sécond".encode().decode("latin-1")], 200),
        (["x-api-key: sécond"], 401),  # in Latin-1
        (["x-api-key: firs"], 401),
    ],
)
def test_api_keys(strict: Running, headers: list[str], status: int) -> None:
    found, answered, _ = raw(strict, get("/slots", LOCAL, *headers))
    assert found == status and ("www-authenticate" in answered) == (status == 401)
    assert raw(strict, get("/health", LOCAL))[0] == 200


def test_names_that_were_allowed(strict: Running) -> None:
    page = "Origin: https://my.page"
    status, headers, _ = raw(strict, get("/health", "Host: my.machine", page))
    assert status == 200 and headers["access-control-allow-origin"] == "https://my.page"
    status, headers, _ = raw(strict, get("/v1/models", LOCAL, page, method="OPTIONS"))
    assert status == 204 and "authorization" in headers["access-control-allow-headers"]
    assert raw(strict, get("/health", "Host: other.machine"))[0] == 403


def test_sizes(strict: Running) -> None:
    assert raw(strict, post("/tokenize", b"x" * 2001, LOCAL, KEY))[0] == 413
    endless = get("/tokenize", LOCAL, KEY, "Transfer-Encoding: chunked", method="POST")
    assert (
        raw(strict, endless + b"600\r\n" + b"x" * 0x600 + b"\r\n" * 1 + b"600\r\n" + b"x" * 0x600)[
            0
        ]
        == 413
    )
    many = json.dumps({"messages": [{"role": "user", "content": ""}] * 4}).encode()
    status, _, body = raw(strict, post("/v1/chat/completions", many, LOCAL, KEY))
    assert status == 400 and b"at most 3" in body
    stops = json.dumps({"prompt": "x", "stop": [str(i) for i in range(65)]}).encode()
    assert raw(strict, post("/completion", stops, LOCAL, KEY))[0] == 400


def test_what_takes_too_long(hasty: Running) -> None:
    """An answer, a stream, and a body that does not arrive: all at once."""
    chat = json.dumps({**CHAT, "stream": True}).encode()
    asked = (
        post("/completion", b'{"prompt": "x"}', LOCAL),
        post("/v1/chat/completions", chat, LOCAL),
        post("/completion", b"x" * 50, LOCAL)[:-10],
    )
    with ThreadPoolExecutor() as pool:
        whole, stream, half = pool.map(partial(raw, hasty), asked)
    assert whole[0] == 408 and b"longer than it may" in whole[2]
    assert stream[0] == 200 and b"longer than it may" in stream[2]
    assert half[0] == 408 and b"did not arrive" in half[2]
    wait_until(lambda: not hasty.service.in_flight)


def test_one_too_many_is_told_when_to_come_again(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.service, "in_flight", server.service.settings.max_requests)
    body = json.dumps(CHAT).encode()
    status, headers, answer = raw(server, post("/v1/chat/completions", body, LOCAL))
    assert status == 503 and int(headers["retry-after"]) > 0
    assert json.loads(answer)["error"]["type"] == "unavailable_error"


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_nobody_waits_for_is_given_up(tmp_path: Path, stream: bool) -> None:
    model = endless(delay=0.01)
    with running(make_manager(model, **LONG), tmp_path) as server:
        body = json.dumps({"prompt": "hi", "temperature": 0, "stream": stream}).encode()
        with closing(socket.socket(socket.AF_UNIX)) as sock:
            sock.connect(server.unix)
            sock.sendall(post("/completion", body, LOCAL))
            wait_until(lambda: len(model.batches) >= 5)
        wait_until(lambda: not server.service.in_flight)
        assert len(model.batches) < 8000 and server.service.totals.aborted == 1


def test_an_answer_nobody_reads_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "stall_seconds", 0.2)
    model = endless(delay=0.002)
    with running(make_manager(model, **LONG), tmp_path) as server:
        asked = {"prompt": "hi", "temperature": 0, "stream": True, "n_probs": 50}
        with closing(socket.socket(socket.AF_UNIX)) as sock:
            sock.connect(server.unix)
            sock.sendall(post("/completion", json.dumps(asked).encode(), LOCAL))
            wait_until(lambda: model.batches)
            wait_until(lambda: not server.service.in_flight)
            assert server.service.totals.generated_tokens == 0


def test_a_server_that_stops_ends_its_streams_properly(tmp_path: Path) -> None:
    model = endless(delay=0.02)
    told: list[bytes] = []

    def ask(server: Running) -> None:
        body = json.dumps({**CHAT, "stream": True}).encode()
        told.append(raw(server, post("/v1/chat/completions", body, LOCAL), unix=True)[2])

    with running(make_manager(model, **LONG), tmp_path) as server:
        client = threading.Thread(target=ask, args=(server,))
        client.start()
        wait_until(lambda: len(model.batches) >= 3)
    client.join()
    assert b'"finish_reason":"length"' in told[0] and b"[DONE]" in told[0]
    assert len(model.batches) < 8000


def test_the_log_tells_what_happened_and_not_what_was_said_unless_asked(
    server: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level("INFO", "edgellm.server"):
        raw(server, post("/completion", b'{"prompt": "secret", "n_predict": 1}', LOCAL))
        raw(server, post("/completion", b'{"prompt": {"secret": 1}}', LOCAL))
        wait_until(lambda: len(caplog.records) == 2)  # the line comes after the answer
    first, second = (json.loads(record.message) for record in caplog.records)
    assert (first["path"], first["status"], first["complete"]) == ("/completion", 200, True)
    assert second["status"] == 400 and first["seconds"] > 0 and first["bytes"] > 0
    assert "secret" not in caplog.text
    monkeypatch.setattr(server.service, "settings", Settings(log_prompts=True))
    with caplog.at_level("INFO", "edgellm.server"):
        raw(server, post("/completion", b'{"prompt": "secret", "n_predict": 1}', LOCAL))
        wait_until(lambda: len(caplog.records) == 3)
    assert json.loads(caplog.records[2].message)["fields"]["prompt"] == "secret"


def test_connections_that_say_nothing_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "header_seconds", 1.0)

    async def main() -> None:
        for listener in (unix_listener(tmp_path / "s.sock"), tcp_listener("127.0.0.1", 0)):
            async with (
                LocalClient(make_manager(MockModel(says("x" * 60), delay=0.02))) as local,
                serving(local, listener),
            ):
                name = listener.socket.getsockname()
                open_it = (
                    asyncio.open_unix_connection(name)
                    if isinstance(name, str)
                    else asyncio.open_connection(*name)
                )
                reader, writer = await open_it
                drip = asyncio.ensure_future(drip_headers(writer))
                with suppress(ConnectionError):  # a byte came when it was closed already
                    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
                drip.cancel()
                writer.close()
                # An answer that takes longer than headers may is not touched.
                done = await whole_answer(name)
                assert done.count(b"x") >= 50

    asyncio.run(main())


async def drip_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /health HTTP/1.1\r\n")
    while True:
        writer.write(b"X")
        await asyncio.sleep(0.05)


async def whole_answer(name: Any) -> bytes:
    opened = (
        asyncio.open_unix_connection(name)
        if isinstance(name, str)
        else asyncio.open_connection(*name)
    )
    reader, writer = await opened
    body = json.dumps({"prompt": "hi", "temperature": 0}).encode()
    writer.write(post("/completion", body, LOCAL))
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    return answer
