"""OpenAI's responses: nothing is stored, each request brings all that was said."""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any

from edgellm.dialects import Tools, read_tools
from edgellm.errors import RequestError
from edgellm.server import fields as f
from edgellm.server.answers import Answer, collect, new_id, steps
from edgellm.server.chat import Chat, prepare
from edgellm.server.endpoint import Call, Reply, Route, Stream, typed_server_sent
from edgellm.server.failures import Failure
from edgellm.server.openai import RENAMED, now, openai_error
from edgellm.server.responses_items import (
    Items,
    function_call,
    message,
    reasoning,
    text_part,
)
from edgellm.types import Message, Usage

_RENAMED = {**RENAMED, "max_output_tokens": "max_tokens"}
_NOT_SAMPLING = {"logprobs", "n", "stop"}
_ECHOED = (
    *("instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "temperature"),
    *("tool_choice", "tools", "top_p", "text", "reasoning", "truncation"),
)
_ECHO_DEFAULTS: Mapping[str, Any] = {
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "text": {"format": {"type": "text"}},
    "truncation": "disabled",
}


async def responses(call: Call) -> Reply:
    if call.fields.get("previous_response_id") is not None:
        raise RequestError(
            "previous_response_id: no response is stored; send the whole input again",
            "previous_response_id",
        )
    chat = await _prepare(call)
    if f.read(call.fields, "stream", bool, False):
        return Stream(_events(call, chat), typed_server_sent, b"text/event-stream", _stream_error)
    (answer,) = await collect(steps(call.service, chat.request, chat.answering.parser))
    output = list(_output(answer, _status(answer)))
    return _response(call, chat, new_id("resp_"), _status(answer), output, answer.usage)


async def input_tokens(call: Call) -> Reply:
    chat = await _prepare(call)
    return {"object": "response.input_tokens", "input_tokens": len(chat.request.prompt)}


def _stream_error(failure: Failure) -> Mapping[str, Any]:
    return {"type": "error", **openai_error(failure)["error"]}


async def _prepare(call: Call) -> Chat:
    messages = _conversation(call)
    if len(messages) > call.service.settings.max_messages:
        raise RequestError(f"{len(messages)} messages: too many", "input")
    given = {key: value for key, value in call.fields.items() if key not in _NOT_SAMPLING}
    params = f.sampling(given, _RENAMED, **_text_format(call))
    wanted = f.read(call.fields, "reasoning", dict[str, Any], {})
    variables = {"reasoning_effort": wanted["effort"]} if wanted.get("effort") else {}
    streams = f.read(call.fields, "stream", bool, False)
    return await prepare(call, messages, params, _tools(call), variables, streams)


def _text_format(call: Call) -> Mapping[str, Any]:
    text = f.read(call.fields, "text", dict[str, Any], {})
    form = text.get("format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        form = {"type": "json_schema", "json_schema": form}
    return f.response_format({"response_format": form})


def _tools(call: Call) -> Tools:
    """Functions as the chat API writes them: one level deeper."""
    functions: list[Message] = [
        {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}
        for tool in f.objects(call.fields, "tools")
        if tool.get("type") == "function"
    ]
    is_parallel = f.read(call.fields, "parallel_tool_calls", bool, True)
    return read_tools(functions, call.fields.get("tool_choice"), is_parallel)


def _conversation(call: Call) -> list[Message]:
    messages: list[Message] = []
    instructions = f.read(call.fields, "instructions", str)
    if instructions:
        messages.append({"role": "system", "content": instructions})
    given = call.fields.get("input")
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for i, item in enumerate(f.objects(call.fields, "input")):
        messages += _messages_of(item, f"input[{i}]")
    return messages


def _messages_of(item: Mapping[str, Any], where: str) -> list[Message]:
    """The message that an item of the input stands for, if any."""
    match item.get("type", "message"):
        case "message":
            return [{"role": item.get("role"), "content": _text(item.get("content"), where)}]
        case "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments") or "{}"}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            return [{"role": "assistant", "content": "", "tool_calls": [call]}]
        case "function_call_output":
            text = item.get("output")
            content = text if isinstance(text, str) else json.dumps(text)
            return [{"role": "tool", "tool_call_id": item.get("call_id"), "content": content}]
        case "reasoning" | "item_reference":
            return []
    raise RequestError(f"{where} has the type {item.get('type')!r}: it cannot be read", "input")


def _text(content: Any, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not parts or not all(isinstance(text, str) for text in texts):
        raise RequestError(f"{where}.content holds what is no text: only text can be read", "input")
    return "\n".join(text for text in texts if text)


def _response(
    call: Call,
    chat: Chat,
    response_id: str,
    status: str,
    output: list[dict[str, Any]],
    usage: Usage | None = None,
) -> dict[str, Any]:
    echoed = {name: call.fields.get(name) for name in _ECHOED}
    for name, value in _ECHO_DEFAULTS.items():
        if echoed[name] is None:
            echoed[name] = value
    incomplete = {"reason": "max_output_tokens"} if status == "incomplete" else None
    return {
        "id": response_id,
        "object": "response",
        "created_at": now(),
        "status": status,
        "model": chat.info.name,
        "error": None,
        "incomplete_details": incomplete,
        "previous_response_id": None,
        "store": False,
        **echoed,
        "output": output,
        "usage": None if usage is None else _usage(usage),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _status(answer: Answer) -> str:
    return "completed" if answer.last.finish_reason == "stop" else "incomplete"


def _output(answer: Answer, status: str) -> Iterator[dict[str, Any]]:
    if answer.reasoning:
        yield reasoning(new_id("rs_"), answer.reasoning)
    if answer.content or not answer.calls:
        yield message(new_id("msg_"), status, [text_part(answer.content)])
    for part in answer.calls.values():
        yield function_call(new_id("fc_"), status, part, part.id or new_id("call_"))


async def _events(call: Call, chat: Chat) -> AsyncGenerator[Any, None]:
    """The events of a response, numbered."""
    response_id, number = new_id("resp_"), 0
    async with aclosing(_bare_events(call, chat, response_id)) as events:
        async for event in events:
            yield {"type": event.pop("type"), "sequence_number": number, **event}
            number += 1


async def _bare_events(
    call: Call, chat: Chat, response_id: str
) -> AsyncGenerator[dict[str, Any], None]:
    answer, items, begun = Answer(), Items(), False
    async with aclosing(steps(call.service, chat.request, chat.answering.parser)) as answered:
        async for step in answered:
            if not begun:
                begun = True
                response = _response(call, chat, response_id, "in_progress", [])
                yield {"type": "response.created", "response": response}
                yield {"type": "response.in_progress", "response": response}
            answer.take(step)
            for part in step.parts:
                for event in items.events(part):
                    yield event
    status = _status(answer)
    for event in items.end(status):
        yield event
    response = _response(call, chat, response_id, status, items.done, answer.usage)
    yield {"type": f"response.{status}", "response": response}


_TAKES = (
    *("model", "input", "instructions", "stream", "max_output_tokens", "text", "reasoning"),
    *("tools", "tool_choice", "parallel_tool_calls", "previous_response_id"),
)
ROUTES = (
    Route("POST", "/v1/responses", responses, takes=_TAKES, samples=True),
    Route("POST", "/responses", responses, takes=_TAKES, samples=True),
    Route("POST", "/v1/responses/input_tokens", input_tokens, takes=_TAKES, samples=True),
)
