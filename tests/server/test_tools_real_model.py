"""Qwen2.5 behind the server, asked for calls through OpenAI's own client."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from edgellm.manager import Manager
from edgellm.types import LoadOptions
from tests.dialects.reading import NOTE, WEATHER
from tests.server.serving import running

pytestmark = pytest.mark.weights
ASKED: Any = [{"role": "user", "content": "What is the weather in Paris?"}]


@pytest.fixture(scope="module")
def client(
    real_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    if "qwen05b" not in real_models:
        pytest.skip("EDGELLM_TEST_MODELS has no qwen05b.gguf")
    manager = Manager()
    manager.load(real_models["qwen05b"], LoadOptions(context_length=1024))
    with (
        running(manager, tmp_path_factory.mktemp("socket")) as found,
        openai.OpenAI(base_url=f"{found.tcp}/v1", api_key="none") as client,
    ):
        yield client


def ask(client: openai.OpenAI, **fields: Any) -> Any:
    fields = {"temperature": 0, "max_tokens": 50, "messages": ASKED, **fields}
    return client.chat.completions.create(model="any", tools=[WEATHER, NOTE], **fields)


def test_a_call_that_must_be_and_its_result(client: openai.OpenAI) -> None:
    required = {"tool_choice": "required", "parallel_tool_calls": False}
    (choice,) = ask(client, **required).choices
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls" and not choice.message.content
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["city"] == "Paris"
    deltas = [chunk.choices[0].delta.tool_calls for chunk in ask(client, **required, stream=True)]
    streamed = [call for calls in deltas for call in calls or ()]
    assert [call.function.name for call in streamed if call.id] == ["get_weather"]
    arguments = "".join(call.function.arguments for call in streamed)
    assert arguments == call.function.arguments and len(streamed) > 2
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 21}'}
    told = [*ASKED, choice.message.model_dump(exclude_none=True), result]
    (choice,) = ask(client, messages=told).choices
    assert "21" in choice.message.content
