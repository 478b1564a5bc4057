"""Ollama's routes: what their fields ask for, and what answers tell."""

import asyncio
import json
from typing import Any

import pytest

from edgellm.client.http import exchange, parse_address
from edgellm.server.answers import Answer
from edgellm.server.ollama import _ending, _message
from edgellm.types import Timings, TokenEvent, Usage
from tests.server.serving import Running, lines_of

ASKED = {"messages": [{"role": "user", "content": "Why?"}], "prompt": "Why?"}
OPTIONS = {"temperature": 0, "num_predict": 40}


def lines(server: Running, target: str, **fields: Any) -> list[Any]:
    """What is told, line by line; one where the request wants no stream."""

    async def main() -> list[Any]:
        body = json.dumps({**ASKED, "options": OPTIONS, **fields}).encode()
        async with exchange(parse_address(server.tcp), "POST", target, body) as response:
            assert response.status == 200
            return [json.loads(line) for line in await lines_of(response) if line]

    return asyncio.run(main())


def said(line: dict[str, Any]) -> str:
    return str(line["message"]["content"] if "message" in line else line["response"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("target", ["/api/chat", "/api/generate"])
def test_a_format_is_held(server: Running, target: str, stream: bool) -> None:
    for form, kind in (({"type": "array", "maxItems": 0}, list), ("json", dict)):
        told = lines(server, target, format=form, stream=stream)
        assert isinstance(json.loads("".join(map(said, told))), kind)
    status, answer = server.ask("POST", target, {**ASKED, "format": "xml"})
    assert status == 400 and "format is 'xml'" in answer["error"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("target", ["/api/chat", "/api/generate"])
def test_each_token_has_its_logprobs_once(server: Running, target: str, stream: bool) -> None:
    told = lines(server, target, logprobs=True, top_logprobs=2, stream=stream)
    entries = [entry for line in told for entry in line.get("logprobs", [])]
    assert len(entries) == told[-1]["eval_count"]
    assert all(len(entry["top_logprobs"]) == 2 for entry in entries)
    told = lines(server, target, top_logprobs=2, stream=stream)
    assert not any("logprobs" in line for line in told)


def test_an_answer_may_be_gone_on_from(server: Running) -> None:
    (first,) = lines(server, "/api/generate", stream=False)
    (second,) = lines(server, "/api/generate", stream=False, context=first["context"][:8])
    assert second["context"][:8] == first["context"][:8]
    assert second["prompt_eval_count"] == first["prompt_eval_count"] + 8
    for more in ({"raw": True}, {"suffix": "return"}):
        (told,) = lines(server, "/api/generate", stream=False, **more)
        assert "context" not in told


def test_without_messages_the_model_is_loaded(server: Running) -> None:
    (told,) = lines(server, "/api/chat", messages=[])
    assert (told["done_reason"], told["message"]["content"]) == ("load", "")


def test_messages_are_written_as_openai_does() -> None:
    message: Any = {"role": "tool", "thinking": "Hm.", "tool_name": "f", "images": []}
    expected = {**message, "reasoning_content": "Hm.", "name": "f"}
    del expected["thinking"], expected["images"]
    assert _message(message) == expected


def test_times_are_nanoseconds() -> None:
    usage, timings = Usage(3, 9, cached_tokens=1), Timings(0.5, 1.0, 2.0)
    ending = _ending(Answer(event=TokenEvent(0, "", (), None, "length", usage, timings)))
    assert ending["total_duration"] == 3_000_000_000
    assert ending["prompt_eval_duration"] == 500_000_000
    assert ending["eval_duration"] == 2_000_000_000
    assert (ending["prompt_eval_count"], ending["prompt_eval_cached_count"]) == (3, 1)
    assert (ending["eval_count"], ending["done_reason"]) == (9, "length")
