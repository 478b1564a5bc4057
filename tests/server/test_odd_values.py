"""Requests in which one value of many is of a kind that nobody would send: no error of ours."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.mock_model import MockModel, make_manager, says
from tests.odd_values import each_changed
from tests.server.serving import Running, running

FUNCTION = {
    "name": "f",
    "description": "d",
    "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
}
TOOL = {"type": "function", "function": FUNCTION}
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "r"},
        ],
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "text", "json_schema": {"schema": {}}},
        "logit_bias": {"1": 1},
        "chat_template_kwargs": {"a": 1},
    },
    "/v1/messages": {
        "max_tokens": 3,
        "system": [{"type": "text", "text": "s"}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "hi"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "1",
                        "content": [{"type": "text", "text": "r"}],
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t"},
                    {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
                ],
            },
        ],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto", "name": "f", "disable_parallel_tool_use": False},
        "thinking": {"type": "enabled", "budget_tokens": 5},
        "output_config": {"format": {"type": "json_schema", "schema": {}}, "effort": "low"},
    },
    "/v1/responses": {
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "hi"}],
            },
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "r"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]},
        ],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "text"}},
        "reasoning": {"effort": "low"},
        "metadata": {"a": "b"},
    },
    "/api/chat": {
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}],
            },
            {"role": "tool", "content": "r", "tool_name": "f"},
        ],
        "tools": [TOOL],
        "options": {"num_predict": 3, "stop": ["a"]},
        "format": {"type": "object"},
        "think": False,
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    template = "<think> </think> <tool_call>"
    manager = make_manager(
        MockModel(says("ok")), source=template, context_length=512, num_blocks=512
    )
    with running(manager, tmp_path_factory.mktemp("s")) as on:
        yield on


@pytest.mark.parametrize("path", REQUESTS)
def test_no_value_is_an_error_of_the_server_itself(server: Running, path: str) -> None:
    whole = REQUESTS[path] | {"stream": False}
    assert server.ask("POST", path, whole)[0] == 200
    for place, odd, fields in each_changed(whole, share=4):
        status, said = server.ask("POST", path, fields)
        assert status < 500, (place, odd, json.dumps(said))
