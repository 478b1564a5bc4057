"""Requests that are made to hurt: each gets an error that says what is wrong, soon."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from edgellm.server.settings import Settings
from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import Running, running
from tests.server.test_guard import get, post, raw

MESSAGES = [{"role": "user", "content": "hi"}]
CALL = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "[" * 100_000}}
MAX_BODY = 8 << 20
ENDLESS = "a" * ((1 << 20) + 1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = Settings(max_requests=4, max_body=MAX_BODY)
    with running(make_manager(MockModel(says("ok"))), tmp_path_factory.mktemp("s"), settings) as on:
        yield on


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"chat_template_kwargs": {"messages": "x"}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"tools": []}}, "chat_template_kwargs"),
        ({"n": 5}, "n"),
        ({"stop": [str(i) for i in range(1000)]}, "stop"),
        ({"logit_bias": {str(i): 1 for i in range(20_000)}}, "logit_bias"),
    ],
)
def test_what_is_too_much_is_named(server: Running, fields: Any, param: str) -> None:
    status, answer = server.ask("POST", "/v1/chat/completions", {"messages": MESSAGES, **fields})
    assert status == 400 and answer["error"]["param"] == param, answer


@pytest.mark.parametrize("levels", [500, 900, 980, 20_000])
@pytest.mark.parametrize("field", ["chat_template_kwargs", "tools", "messages", "response_format"])
def test_deep_nesting(server: Running, levels: int, field: str) -> None:
    deep = "[" * levels + "]" * levels
    value = {
        "chat_template_kwargs": f'{{"a": {deep}}}',
        "tools": f'[{{"type": "function", "function": {{"name": "f", "parameters": '
        f'{{"type": "object", "default": {deep}}}}}}}]',
        "messages": f'[{{"role": "user", "content": "x", "more": {deep}}}]',
        "response_format": f'{{"type": "json_object", "schema": {{"a": {deep}}}}}',
    }
    fields = {"messages": json.dumps(MESSAGES), field: value[field]}
    body = "{" + ",".join(f'"{name}": {text}' for name, text in fields.items()) + "}"
    status, _, said = raw(server, post("/v1/chat/completions", body.encode(), "Host: localhost"))
    assert status in (200, 400), said


def test_arguments_that_never_end(server: Running) -> None:
    messages = [*MESSAGES, {"role": "assistant", "tool_calls": [CALL]}]
    status, answer = server.ask("POST", "/v1/chat/completions", {"messages": messages})
    assert status == 400 and "nested too deeply" in answer["error"]["message"]


def test_a_prompt_that_cannot_fit_is_not_read(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.mock_model.ByteTokenizer.encode", None)
    aborted = server.service.totals.aborted
    for fields in ({"prompt": "a" * (2 << 20)}, {"prompt": "a" * (2 << 20), "stream": True}):
        status, answer = server.ask("POST", "/completion", fields)
        assert status == 400 and answer["error"]["type"] == "exceed_context_size_error"
        assert "at least" in answer["error"]["message"]
    said = [{"role": "user", "content": "a" * (2 << 20)}]
    assert server.ask("POST", "/v1/chat/completions", {"messages": said})[0] == 400
    assert server.service.totals.aborted == aborted


@pytest.mark.parametrize(
    "path, fields",
    [
        ("/tokenize", {"content": ENDLESS}),
        ("/completion", {"prompt": [1, ENDLESS]}),
        ("/infill", {"input_prefix": ENDLESS}),
        ("/infill", {"input_extra": [{"text": ENDLESS}]}),
        ("/v1/completions", {"prompt": "a", "suffix": ENDLESS}),
        ("/edgellm/v1/tokenize", {"text": ENDLESS}),
        ("/edgellm/v1/fim_prompt", {"hole": {"prefix": "a", "suffix": ENDLESS}}),
    ],
)
def test_no_more_text_is_made_tokens_than_takes_a_moment(
    server: Running, monkeypatch: pytest.MonkeyPatch, path: str, fields: dict[str, Any]
) -> None:
    monkeypatch.setattr("tests.mock_model.ByteTokenizer.encode", None)
    status, answer = server.ask("POST", path, fields)
    assert status == 413 and "at most 1048576" in str(answer)


@pytest.mark.parametrize("way", ["length", "chunked"])
def test_who_sends_too_much_hears_so(server: Running, way: str) -> None:
    """Though it listens only when it has sent all."""
    data = b"x" * (2 * MAX_BODY)
    if way == "length":
        sent = post("/completion", data, "Host: localhost")
    else:
        lines = ("Host: localhost", "Transfer-Encoding: chunked")
        head = get("/completion", *lines, method="POST")
        sent = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)
    status, headers, said = raw(server, sent)
    assert status == 413 and headers["connection"] == "close" and b"larger than" in said


def test_nobody_waits_for_who_asks_first(server: Running) -> None:
    """Expect: 100-continue: the body was not sent, and is not to be."""
    head = "POST /completion HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
    status, _, _ = raw(server, f"{head}Content-Length: {2 * MAX_BODY}\r\n\r\n".encode())
    assert status == 413
