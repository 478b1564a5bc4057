"""OpenAI's completions of plain text: their length, and what goes before them."""

import asyncio
import json
from typing import Any

import pytest

from edgellm.client.http import exchange, parse_address
from tests.server.conftest import SAID
from tests.server.serving import Running, lines_of


def choices(server: Running, **fields: Any) -> list[Any]:
    """Those of all chunks, or of the whole answer, after a look at the rest."""

    async def main() -> list[Any]:
        body = json.dumps({"prompt": "hi", "temperature": 0, **fields}).encode()
        address = parse_address(server.tcp)
        async with exchange(address, "POST", "/v1/completions", body) as response:
            assert response.status == 200
            told = [line.removeprefix(b"data: ") for line in await lines_of(response) if line]
        return [
            choice for line in told if line != b"[DONE]" for choice in json.loads(line)["choices"]
        ]

    return asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_sixteen_tokens_unless_more_are_asked_for(server: Running, stream: bool) -> None:
    assert len(SAID) == 16
    assert choices(server, stream=stream)[-1]["finish_reason"] == "length"
    for limit in ("max_tokens", "max_completion_tokens", "n_predict"):
        assert choices(server, stream=stream, **{limit: 20})[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_each_prompt_goes_before_its_answers(server: Running, stream: bool) -> None:
    asked = {"prompt": ["one ", "two "], "n": 2, "echo": True}
    texts = ["", "", "", ""]
    for choice in choices(server, stream=stream, **asked):
        texts[choice["index"]] += choice["text"]
    assert texts == [f"one {SAID}", f"one {SAID}", f"two {SAID}", f"two {SAID}"]


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs_are_told_where_they_are_asked_for(server: Running, stream: bool) -> None:
    found = [choice["logprobs"] for choice in choices(server, stream=stream, logprobs=1)]
    assert sum(len(logprobs["tokens"]) for logprobs in found) == 16
    assert all(choice["logprobs"] is None for choice in choices(server, stream=stream))
