"""OpenAI's responses. The latest are kept in memory, for requests that go on from one."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any

from edgellm.dialects import Part, Tools, read_tools
from edgellm.errors import RequestError
from edgellm.server import fields as f
from edgellm.server.answers import Answer, Prepared, new_id
from edgellm.server.chat import prepare
from edgellm.server.failures import Failure, Refusal
from edgellm.server.kept_responses import Kept
from edgellm.server.openai import RENAMED, now, openai_error
from edgellm.server.responses_input import joined, messages_of
from edgellm.server.responses_items import (
    Items,
    function_call,
    message,
    reasoning,
    text_part,
)
from edgellm.server.routes import EVENTS, Call, Put, Reply, Route, Stream, typed_server_sent
from edgellm.types import Message, Messages

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
    said = _said_so_far(call)
    chat = await _prepare(call, said)
    if f.read(call.fields, "stream", bool, False):
        return Stream(partial(_events, call, said, chat), typed_server_sent, EVENTS, _stream_error)
    (answer,) = await chat.collect(call.service)
    output = list(_output(answer, _status(answer)))
    response = _response(call, chat, new_id("resp_"), _status(answer), output, answer)
    _keep(call, said, response, answer)
    return response


async def kept(call: Call) -> Reply:
    return _found(call).response


async def input_items(call: Call) -> Reply:
    """What was said before the response, as items."""
    said = [
        message(f"msg_{i}", "completed", [{"type": "input_text", "text": m.get("content") or ""}])
        | {"role": m.get("role")}
        for i, m in enumerate(_found(call).messages[:-1])
    ]
    first, last = (said[0]["id"], said[-1]["id"]) if said else (None, None)
    page = {"first_id": first, "last_id": last, "has_more": False}
    return {"object": "list", "data": said, **page}


async def forget(call: Call) -> Reply:
    response_id = _found(call).response["id"]
    call.service.responses.forget(response_id)
    return {"id": response_id, "object": "response", "deleted": True}


def _found(call: Call) -> Kept:
    found = call.service.responses.find(call.path["response"])
    if found is None:
        what = f"there is no response {call.path['response']!r}, or no more"
        raise Refusal(404, "not_found_error", what)
    return found


async def input_tokens(call: Call) -> Reply:
    chat = await _prepare(call, _said_so_far(call))
    return {"object": "response.input_tokens", "input_tokens": len(chat.request.prompt)}


def _stream_error(failure: Failure) -> Mapping[str, Any]:
    return {"type": "error", **openai_error(failure)["error"]}


async def _prepare(call: Call, said: Messages) -> Prepared:
    messages = list(said)
    instructions = f.read(call.fields, "instructions", str)
    if instructions:
        messages.insert(0, {"role": "system", "content": instructions})
    if len(messages) > call.service.settings.max_messages:
        raise RequestError(f"{len(messages)} messages: too many", "input")
    given = {key: value for key, value in call.fields.items() if key not in _NOT_SAMPLING}
    params = f.sampling(given, _RENAMED, **_text_format(call))
    streams = f.read(call.fields, "stream", bool, False)
    return await prepare(call, messages, params, _tools(call), streams)


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


def _said_so_far(call: Call) -> Messages:
    """The conversation up to the answer, without instructions."""
    return joined([*_said_before(call), *messages_of(call.fields)])


def _said_before(call: Call) -> Messages:
    """The conversation that the request goes on from."""
    previous = f.read(call.fields, "previous_response_id", str)
    if previous is None:
        return ()
    kept = call.service.responses.find(previous)
    if kept is None:
        raise RequestError(
            f"previous_response_id: there is no response {previous!r}, or no more; send the whole "
            "input again",
            "previous_response_id",
        )
    return kept.messages


def _keep(call: Call, said: Messages, response: Mapping[str, Any], answer: Answer) -> None:
    """Keeps a response for requests that go on from it, unless `store` is false."""
    if not f.read(call.fields, "store", bool, True):
        return
    calls = [
        {
            "id": part.id,
            "type": "function",
            "function": {"name": part.name, "arguments": part.arguments},
        }
        for part in answer.calls.values()
    ]
    latest: dict[str, Any] = {"role": "assistant", "content": answer.content}
    if calls:
        latest["tool_calls"] = calls
    if answer.reasoning:
        latest["reasoning_content"] = answer.reasoning
    call.service.responses.keep(response["id"], Kept((*said, latest), response))


def _response(
    call: Call,
    chat: Prepared,
    response_id: str,
    status: str,
    output: list[dict[str, Any]],
    answer: Answer | None = None,
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
        "completed_at": now() if status == "completed" else None,
        "status": status,
        "model": chat.info.name,
        "error": None,
        "incomplete_details": incomplete,
        "previous_response_id": call.fields.get("previous_response_id"),
        "store": f.read(call.fields, "store", bool, True),
        **echoed,
        "output": output,
        "usage": None if answer is None else _usage(answer),
    }


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
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


async def _events(call: Call, said: Messages, chat: Prepared, put: Put) -> None:
    """The events of a response, numbered."""
    response_id, items, numbers = new_id("resp_"), Items(), count()

    def say(event: dict[str, Any]) -> None:
        put({"type": event.pop("type"), "sequence_number": next(numbers), **event})

    def begin() -> None:
        response = _response(call, chat, response_id, "in_progress", [])
        say({"type": "response.created", "response": response})
        say({"type": "response.in_progress", "response": response})

    def take(part: Part) -> None:
        for event in items.events(part):
            say(event)

    answer = await chat.tell(call.service, begin, take)
    status = _status(answer)
    for event in items.end(status):
        say(event)
    response = _response(call, chat, response_id, status, items.done, answer)
    _keep(call, said, response, answer)
    say({"type": f"response.{status}", "response": response})


_TAKES = (
    *("model", "input", "instructions", "stream", "max_output_tokens", "text", "reasoning"),
    *("tools", "tool_choice", "parallel_tool_calls", "previous_response_id", "store"),
)
ROUTES = (
    Route("POST", "/v1/responses", responses, takes=_TAKES, needs=("input",), samples=True),
    Route("POST", "/responses", responses, takes=_TAKES, needs=("input",), samples=True),
    Route(
        "POST",
        "/v1/responses/input_tokens",
        input_tokens,
        takes=_TAKES,
        needs=("input",),
        samples=True,
    ),
    Route("GET", "/v1/responses/{response}", kept),
    Route("DELETE", "/v1/responses/{response}", forget),
    Route("GET", "/v1/responses/{response}/input_items", input_items),
)
