"""What is sent, held to the SDKs' own models: their clients read it without looking closely."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import anthropic.types
import openai.types
import openai.types.chat
import openai.types.responses
import pytest
from ollama import ChatResponse, EmbedResponse, GenerateResponse, ListResponse, ProcessResponse
from pydantic import TypeAdapter

from edgellm.client.http import exchange, parse_address
from tests.mock_model import MockModel, make_manager, says
from tests.server.conftest import SAID
from tests.server.serving import Running, lines_of, running

MESSAGES = [{"role": "user", "content": "Why?"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FUNCTION = {"name": "f", "description": "d", "parameters": SCHEMA}
CHAT: dict[str, Any] = {"messages": MESSAGES, "temperature": 0}
LOGPROBS = {"logprobs": True, "top_logprobs": 2}
TOOLS = {"tools": [{"type": "function", "function": FUNCTION}]}
USAGE = {"stream_options": {"include_usage": True}}
ASKED: dict[str, Any] = {"input": "Why?", "temperature": 0}
ANTHROPIC: dict[str, Any] = {**CHAT, "max_tokens": 40}
MODEL = {"model": "mock"}

WHOLE = [
    ("/v1/chat/completions", {**CHAT, **LOGPROBS, "n": 2}, openai.types.chat.ChatCompletion),
    ("/v1/chat/completions", {**CHAT, **TOOLS}, openai.types.chat.ChatCompletion),
    ("/v1/completions", {"prompt": "a", "logprobs": 1}, openai.types.Completion),
    ("/v1/responses", {**ASKED, "store": False}, openai.types.responses.Response),
    ("/v1/responses", {**ASKED, "max_output_tokens": 16}, openai.types.responses.Response),
    ("/v1/messages", ANTHROPIC, anthropic.types.Message),
    ("/v1/messages/count_tokens", ANTHROPIC, anthropic.types.MessageTokensCount),
    ("/api/chat", {**MODEL, **CHAT, **LOGPROBS, "stream": False}, ChatResponse),
    ("/api/generate", {**MODEL, "prompt": "a", "stream": False}, GenerateResponse),
    ("/api/tags", None, ListResponse),
    ("/api/ps", None, ProcessResponse),
    ("/v1/models/mock", None, openai.types.Model),
]
STREAMED = [
    ("/v1/chat/completions", {**CHAT, **LOGPROBS, **USAGE}, openai.types.chat.ChatCompletionChunk),
    ("/v1/chat/completions", {**CHAT, **TOOLS, "n": 2}, openai.types.chat.ChatCompletionChunk),
    ("/v1/responses", ASKED, openai.types.responses.ResponseStreamEvent),
    ("/v1/messages", ANTHROPIC, anthropic.types.RawMessageStreamEvent),
    ("/api/chat", {**MODEL, **CHAT}, ChatResponse),
    ("/api/generate", {**MODEL, "prompt": "a"}, GenerateResponse),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With room for what a model is taught of tools."""
    manager = make_manager(MockModel(says(SAID)), context_length=1024, num_blocks=600)
    with running(manager, tmp_path_factory.mktemp("socket")) as found:
        yield found


@pytest.mark.parametrize(("target", "fields", "kind"), WHOLE)
def test_whole_answers(server: Running, target: str, fields: Any, kind: Any) -> None:
    status, answer = server.ask("GET" if fields is None else "POST", target, fields)
    assert status == 200
    TypeAdapter(kind).validate_python(answer)


@pytest.mark.parametrize(("target", "fields", "kind"), STREAMED)
def test_parts_of_streams(server: Running, target: str, fields: Any, kind: Any) -> None:
    body = json.dumps({**fields, "stream": True}).encode()

    async def main() -> list[bytes]:
        async with exchange(parse_address(server.tcp), "POST", target, body) as response:
            return await lines_of(response)

    lines = [line.removeprefix(b"data: ") for line in asyncio.run(main())]
    parts = [json.loads(line) for line in lines if line.startswith(b"{")]
    assert len(parts) > len(SAID)
    for part in parts:
        TypeAdapter(kind).validate_python(part)


def test_embeddings(server: Running) -> None:
    fields = {"input": ["a", "b"], **MODEL}
    status, answer = server.ask("POST", "/v1/embeddings", fields)
    assert status == 200
    TypeAdapter(openai.types.CreateEmbeddingResponse).validate_python(answer)
    EmbedResponse.model_validate(server.ask("POST", "/api/embed", fields)[1])


def test_a_conversation_goes_on_from_ollamas_context(server: Running) -> None:
    asked = {**MODEL, "stream": False, "options": {"temperature": 0, "num_predict": 4}}
    _, first = server.ask("POST", "/api/generate", {**asked, "prompt": "a"})
    assert bytes(first["context"][-4:]) == b"The "
    going_on = {**asked, "prompt": "b", "context": first["context"]}
    _, second = server.ask("POST", "/api/generate", going_on)
    assert second["context"][: len(first["context"])] == first["context"]
    assert second["prompt_eval_count"] == len(second["context"]) - 4
    _, raw = server.ask("POST", "/api/generate", {**asked, "prompt": "a", "raw": True})
    assert "context" not in raw
    wrong = server.ask("POST", "/api/generate", {**going_on, "context": [10**9]})
    assert wrong[0] == 400 and "vocabulary" in wrong[1]["error"]
