"""Calls and reasoning as each API writes them, whole and streamed, through its own client."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anthropic
import ollama
import openai
import pytest

from edgellm.dialects import CallPart
from edgellm.server.answers import Answer
from edgellm.server.anthropic import _blocks, _conversation, _tools
from tests.dialects.reading import NOTE, WEATHER
from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import Running, running

TEMPLATE = "<think> </think> <tool_call>"
CALL = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>'
)
NOTED = '<tool_call>\n{"name": "note", "arguments": {"text": "a"}}\n</tool_call>'
ANSWER = f"<think>\nHm.\n</think>\n\nI look.\n{CALL}\n{NOTED}"
TOOLS: Any = [WEATHER, NOTE]
FUNCTIONS: Any = [tool["function"] for tool in TOOLS]
ASKED: Any = [{"role": "user", "content": "Why?"}]
ARGUMENTS = {"city": "Paris", "days": 3}
EXPECTED = [("get_weather", ARGUMENTS), ("note", {"text": "a"})]

Serve = Callable[..., Running]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts a server that says a text."""
    with ExitStack() as opened:
        known: dict[str, Running] = {}

        def start(text: str) -> Running:
            if text not in known:
                sizes = {"context_length": 1024, "num_blocks": 512}
                manager = make_manager(MockModel(says(text)), source=TEMPLATE, **sizes)
                folder = tmp_path_factory.mktemp("socket")
                known[text] = opened.enter_context(running(manager, folder))
            return known[text]

        yield start


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def openai_of(server: Running, opened: ExitStack) -> openai.OpenAI:
    return opened.enter_context(openai.OpenAI(base_url=f"{server.tcp}/v1", api_key="none"))


def test_openai(serve: Serve, opened: ExitStack) -> None:
    chat = openai_of(serve(ANSWER), opened).chat.completions
    fields: Any = {"model": "m", "messages": ASKED, "temperature": 0, "tools": TOOLS}
    (choice,) = chat.create(**fields).choices
    calls: Any = choice.message.tool_calls
    assert [(c.function.name, json.loads(c.function.arguments)) for c in calls] == EXPECTED
    assert (choice.message.content, choice.finish_reason) == ("I look.", "tool_calls")
    assert choice.message.reasoning_content == "Hm."  # type: ignore[attr-defined]
    with chat.stream(**fields) as stream:
        final: Any = stream.get_final_completion().choices[0]
    calls = final.message.tool_calls
    assert [(c.function.name, json.loads(c.function.arguments)) for c in calls] == EXPECTED
    assert [c.index for c in calls] == [0, 1] and all(c.id and c.type for c in calls)
    assert (final.message.content, final.finish_reason) == ("I look.", "tool_calls")
    without: Any = {**fields, "tool_choice": "none"}
    (choice,) = chat.create(**without).choices
    assert choice.message.tool_calls is None and "<tool_call>" in str(choice.message.content)


def test_responses(serve: Serve, opened: ExitStack) -> None:
    client = openai_of(serve(ANSWER), opened).responses
    tools = [{"type": "function", **function} for function in FUNCTIONS]
    fields: Any = {"model": "m", "input": "Why?", "temperature": 0, "tools": tools}
    answer: Any = client.create(**fields)
    assert [item.type for item in answer.output] == [
        *("reasoning", "message", "function_call", "function_call")
    ]
    calls = [(item.name, json.loads(item.arguments)) for item in answer.output[2:]]
    assert calls == EXPECTED and answer.output_text == "I look."
    with client.stream(**fields) as stream:
        streamed: Any = stream.get_final_response()
    assert [(c.name, json.loads(c.arguments)) for c in streamed.output[2:]] == EXPECTED


def test_anthropic(serve: Serve, opened: ExitStack) -> None:
    sdk = anthropic.Anthropic(base_url=serve(ANSWER).tcp, api_key="none")
    client = opened.enter_context(sdk).messages
    tools = [{"name": f["name"], "input_schema": f["parameters"]} for f in FUNCTIONS]
    fields: Any = {"model": "m", "max_tokens": 400, "messages": ASKED, "tools": tools}
    fields["extra_body"] = {"temperature": 0}
    answer: Any = client.create(**fields)
    with client.stream(**fields) as stream:
        streamed: Any = stream.get_final_message()
    for message in (answer, streamed):
        thought, text, *calls = message.content
        assert (thought.thinking, text.text, message.stop_reason) == ("Hm.", "I look.", "tool_use")
        assert [(call.name, call.input) for call in calls] == EXPECTED


def test_blocks_of_anthropics_messages() -> None:
    """As OpenAI writes them: results of tools are messages of their own, before what is said."""
    used = {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}
    thoughts = [{"type": "thinking", "thinking": "Hm."}, {"type": "redacted_thinking", "data": "x"}]
    result = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "3"}]}
    call = {"name": "f", "arguments": '{"a": 1}'}
    told = {"role": "tool", "tool_call_id": "1", "content": "3"}
    for blocks, expected in (
        (
            [*thoughts, {"type": "text", "text": "I look."}, used],
            [
                {
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [{"id": "1", "type": "function", "function": call}],
                    "reasoning_content": "Hm.",
                }
            ],
        ),
        ([result], [told]),
        (
            [result, {"type": "text", "text": "And?"}, {"type": "text", "text": "Well?"}],
            [told, {"role": "user", "content": "And?\nWell?"}],
        ),
    ):
        role = expected[-1]["role"].replace("tool", "user")
        fields = {
            "messages": [{"role": role, "content": blocks}],
            "system": [{"text": "Be brief."}],
        }
        asked: Any = SimpleNamespace(fields=fields)
        assert _conversation(asked) == [{"role": "system", "content": "Be brief."}, *expected]


def test_tools_that_anthropic_runs_itself_are_left_out() -> None:
    own = {"type": "web_search_20250305", "name": "web_search"}
    custom = {"type": "custom", "name": "f", "description": "Does.", "input_schema": {}}
    asked: Any = SimpleNamespace(fields={"tools": [own, custom]})
    assert list(_tools(asked).callable) == ["f"]


def test_an_answer_of_anthropics_has_a_text_where_it_has_nothing_else() -> None:
    call = CallPart(0, "{}", "1", "f")
    for answer, kinds in (
        (Answer(), ["text"]),
        (Answer(reasoning="Hm."), ["thinking"]),
        (Answer(calls={0: call}), ["tool_use"]),
        (Answer("So.", "Hm.", {0: call}), ["thinking", "text", "tool_use"]),
    ):
        assert [block["type"] for block in _blocks(answer)] == kinds


def test_ollama(serve: Serve, opened: ExitStack) -> None:
    client = opened.enter_context(ollama.Client(host=serve(ANSWER).tcp))
    fields: Any = {"model": "m", "messages": ASKED, "tools": TOOLS, "options": {"temperature": 0}}
    answer = client.chat(**fields)
    parts = [*client.chat(**fields, stream=True)]
    streamed = [call for part in parts for call in part.message.tool_calls or ()]
    assert "".join(part.message.content or "" for part in parts) == "I look."
    assert "".join(part.message.thinking or "" for part in parts) == "Hm."
    assert (answer.message.thinking, answer.message.content) == ("Hm.", "I look.")
    for calls in (answer.message.tool_calls or (), streamed):
        assert [(call.function.name, call.function.arguments) for call in calls] == EXPECTED


@pytest.mark.parametrize("held", [{}, {"tool_choice": "required", "parallel_tool_calls": False}])
def test_arguments_stream(serve: Serve, opened: ExitStack, held: dict[str, Any]) -> None:
    chat = openai_of(serve(CALL), opened).chat.completions
    fields: Any = {"model": "m", "messages": ASKED, "temperature": 0, "tools": TOOLS}
    fields |= {**held, "stream": True}
    deltas = [chunk.choices[0].delta.tool_calls for chunk in chat.create(**fields)]
    calls = [call for found in deltas for call in found or ()]
    assert json.loads("".join(call.function.arguments for call in calls)) == ARGUMENTS
    assert len(calls) > 3 and [bool(call.id) for call in calls] == [True] + [False] * (
        len(calls) - 1
    )


def test_answers_of_a_schema(serve: Serve, opened: ExitStack) -> None:
    """Whoever may call may also answer, in the form that was asked for."""
    server = serve('{"colour": "blue"}')
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
    schema |= {"required": ["colour"], "additionalProperties": False}
    form: Any = {"type": "json_schema", "json_schema": {"name": "c", "schema": schema}}
    fields: Any = {"model": "m", "messages": ASKED, "temperature": 0, "tools": TOOLS}
    chat = openai_of(server, opened).chat.completions
    (choice,) = chat.create(**fields, response_format=form).choices
    assert choice.message.content == '{"colour": "blue"}'
    sdk = anthropic.Anthropic(base_url=server.tcp, api_key="none")
    held: Any = {"format": {"type": "json_schema", "schema": schema}}
    message: Any = opened.enter_context(sdk).messages.create(
        model="m", max_tokens=99, messages=ASKED, output_config=held, extra_body={"temperature": 0}
    )
    assert message.content[0].text == '{"colour": "blue"}'


def test_a_call_that_is_cut(serve: Serve) -> None:
    """It is text where it comes whole, and no API fails over it."""
    server = serve(CALL)
    fields = {"messages": ASKED, "tools": TOOLS, "tool_choice": "required", "temperature": 0}
    _, answer = server.ask("POST", "/v1/chat/completions", {**fields, "max_tokens": 50})
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == CALL[:50]
    tools = [{"name": f["name"], "input_schema": f["parameters"]} for f in FUNCTIONS]
    fields = {**fields, "tools": tools, "max_tokens": 50, "tool_choice": {"type": "any"}}
    _, answer = server.ask("POST", "/v1/messages", fields)
    assert (answer["stop_reason"], answer["content"][0]["type"]) == ("max_tokens", "text")


def test_tools_that_are_wrong(serve: Serve) -> None:
    server = serve(CALL)
    for fields in ({"tools": [{"type": "x"}]}, {"tools": TOOLS, "tool_choice": "perhaps"}):
        for path in ("/v1/chat/completions", "/api/chat"):
            status, _ = server.ask("POST", path, {"messages": ASKED, **fields})
            assert status == 400


def test_a_model_without_calls_is_taught(tmp_path: Path) -> None:
    said = '{"name": "note", "arguments": {"text": "a"}}'
    manager = make_manager(MockModel(says(said)), context_length=2048, num_blocks=1024)
    with running(manager, tmp_path) as server:
        fields = {"messages": ASKED, "tools": TOOLS, "temperature": 0, "tool_choice": "required"}
        _, answer = server.ask("POST", "/v1/chat/completions", fields)
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert (call["function"]["name"], call["function"]["arguments"]) == (
            "note",
            '{"text": "a"}',
        )
        _, answer = server.ask("POST", "/v1/messages/count_tokens", {"messages": ASKED})
        assert answer["input_tokens"] < 40
