"""Anthropic's messages. Field names as in its API reference."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from edgellm.dialects import CallPart, Part, Tools, read_tools
from edgellm.errors import RequestError
from edgellm.server import fields as f
from edgellm.server.answers import Answer, Prepared, new_id
from edgellm.server.chat import prepare
from edgellm.server.failures import Failure
from edgellm.server.routes import EVENTS, Call, Family, Put, Reply, Route, Stream, typed_server_sent
from edgellm.types import Message, TokenEvent, Usage

_RENAMED = {"stop_sequences": "stop"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_CHOICES = {"any": "required"}  # what is not here is called as OpenAI calls it


def anthropic_error(failure: Failure) -> Mapping[str, Any]:
    kind = _ERRORS.get(failure.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": failure.message}}


async def messages(call: Call) -> Reply:
    if call.fields.get("max_tokens") is None:
        raise RequestError("max_tokens is missing: a number of tokens is expected", "max_tokens")
    chat = await _prepare(call)
    if f.read(call.fields, "stream", bool, False):
        return Stream(partial(_events, call, chat), typed_server_sent, EVENTS, anthropic_error)
    (answer,) = await chat.collect(call.service)
    return {
        **_message(chat, new_id("msg_"), answer.usage),
        "content": _blocks(answer),
        "stop_reason": _stop_reason(answer.last, bool(answer.calls)),
        "stop_sequence": answer.last.stop,
    }


async def count_tokens(call: Call) -> Reply:
    chat = await _prepare(call)
    return {"input_tokens": len(chat.request.prompt)}


async def _prepare(call: Call) -> Prepared:
    conversation = _conversation(call)
    if len(conversation) > call.service.settings.max_messages:
        raise RequestError(f"{len(conversation)} messages: too many", "messages")
    params = f.sampling(call.fields, _RENAMED, n=1, **_form(call))
    streams = f.read(call.fields, "stream", bool, False)
    return await prepare(call, conversation, params, _tools(call), streams)


def _form(call: Call) -> Mapping[str, Any]:
    """The schema that the answer is held to."""
    form = f.read(call.fields, "output_config", dict[str, Any], {}).get("format")
    form = form or call.fields.get("output_format")  # its older name
    return f.response_format({"response_format": form})


def _conversation(call: Call) -> list[Message]:
    """The messages as OpenAI writes them."""
    shaped: list[Message] = []
    system = call.fields.get("system")
    if system:
        shaped.append({"role": "system", "content": _text(system, "system")})
    for i, message in enumerate(f.objects(call.fields, "messages")):
        shaped += _shaped(message, f"messages[{i}]")
    return shaped


def _shaped(message: Mapping[str, Any], where: str) -> list[Message]:
    """One message; results of tools become messages of their own."""
    role, content = message.get("role"), message.get("content")
    if isinstance(content, str) or content is None:
        return [{"role": role, "content": content or ""}]
    if not isinstance(content, list):
        raise RequestError(f"{where}.content is neither text nor a list of blocks", "messages")
    texts, thoughts, calls = [], [], []
    results: list[Message] = []
    for i, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else None
        place = f"{where}.content[{i}]"
        if kind == "text":
            texts.append(_text([block], place))
        elif kind == "thinking":
            thoughts.append(str(block.get("thinking", "")))
        elif kind == "tool_use":
            calls.append(_call(block))
        elif kind == "tool_result":
            results.append(_result(block, place))
        elif kind != "redacted_thinking":
            raise RequestError(f"{place} has the type {kind!r}; only text can be read", "messages")
    shaped: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
    if calls:
        shaped["tool_calls"] = calls
    if thoughts:
        shaped["reasoning_content"] = "\n".join(thoughts)
    return results if results and not texts else [*results, shaped]


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise RequestError(f"{where} is neither text nor a list of text blocks", where)
    texts = [block.get("text") if isinstance(block, dict) else None for block in content]
    if not all(isinstance(text, str) for text in texts):
        raise RequestError(f"{where} holds a block without text; only text can be read", where)
    return "\n".join(text for text in texts if text)


def _call(block: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": block.get("name"), "arguments": json.dumps(block.get("input", {}))}
    return {"id": block.get("id"), "type": "function", "function": function}


def _result(block: Mapping[str, Any], where: str) -> dict[str, Any]:
    text = _text(block.get("content") or "", where)
    return {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text}


def _tools(call: Call) -> Tools:
    """Those that the client runs; Anthropic's own, which have no schema, are left out."""
    functions: list[Message] = [
        {
            "type": "function",
            "function": {
                "name": tool.get("name"),
                "description": tool.get("description") or "",
                "parameters": tool.get("input_schema") or {"type": "object"},
                "strict": tool.get("strict"),
            },
        }
        for tool in f.objects(call.fields, "tools")
        if tool.get("type") in (None, "custom") or "input_schema" in tool
    ]
    asked = f.read(call.fields, "tool_choice", dict[str, Any], {})
    is_parallel = not f.read(asked, "disable_parallel_tool_use", bool, False)
    kind = f.read(asked, "type", str, "auto")
    choice = {"name": asked.get("name")} if kind == "tool" else _CHOICES.get(kind, kind)
    return read_tools(functions, choice, is_parallel)


def _message(chat: Prepared, message_id: str, usage: Usage) -> dict[str, Any]:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": chat.info.name,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(usage),
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.reasoning:
        blocks.append({"type": "thinking", "thinking": answer.reasoning, "signature": ""})
    if answer.content or not (answer.calls or answer.reasoning):
        blocks.append({"type": "text", "text": answer.content})
    for part in answer.calls.values():
        arguments = json.loads(part.arguments or "{}")
        blocks.append(
            {
                "type": "tool_use",
                "id": part.id or new_id("toolu_"),
                "name": part.name,
                "input": arguments,
            }
        )
    return blocks


def _stop_reason(event: TokenEvent, has_calls: bool) -> str:
    if event.finish_reason != "stop":
        return "max_tokens"
    if event.stop is not None:
        return "stop_sequence"
    return "tool_use" if has_calls else "end_turn"


async def _events(call: Call, chat: Prepared, put: Put) -> None:
    block = _Blocks()

    def begin() -> None:
        message = _message(chat, new_id("msg_"), Usage(len(chat.request.prompt), 0))
        put({"type": "message_start", "message": message})

    def take(part: Part) -> None:
        for event in block.events(part):
            put(event)

    answer = await chat.tell(call.service, begin, take)
    for event in block.end():
        put(event)
    delta = {
        "stop_reason": _stop_reason(answer.last, bool(answer.calls)),
        "stop_sequence": answer.last.stop,
    }
    put({"type": "message_delta", "delta": delta, "usage": _usage(answer.usage)})
    put({"type": "message_stop"})


class _Blocks:
    """The blocks of an answer as they begin, grow and end."""

    def __init__(self) -> None:
        self._index = -1
        self._open: object = None  # what the open block holds

    def events(self, part: Part) -> list[dict[str, Any]]:
        """What a part means to the stream."""
        found = []
        holds = part.index if isinstance(part, CallPart) else part.kind
        if holds != self._open:
            found += self._close()
            found.append(self._begin(part))
            self._open = holds
        if isinstance(part, CallPart):
            delta = {"type": "input_json_delta", "partial_json": part.arguments}
        elif part.kind == "reasoning":
            delta = {"type": "thinking_delta", "thinking": part.text}
        else:
            delta = {"type": "text_delta", "text": part.text}
        found.append({"type": "content_block_delta", "index": self._index, "delta": delta})
        return found

    def end(self) -> list[dict[str, Any]]:
        """The end of the last block, after an empty one if there was none."""
        begun = [] if self._index >= 0 else [self._start({"type": "text", "text": ""})]
        return [*begun, *self._close()]

    def _begin(self, part: Part) -> dict[str, Any]:
        if isinstance(part, CallPart):
            call_id = part.id or new_id("toolu_")
            return self._start({"type": "tool_use", "id": call_id, "name": part.name, "input": {}})
        if part.kind == "reasoning":
            return self._start({"type": "thinking", "thinking": "", "signature": ""})
        return self._start({"type": "text", "text": ""})

    def _start(self, block: dict[str, Any]) -> dict[str, Any]:
        self._index += 1
        self._open = "begun"
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _close(self) -> list[dict[str, Any]]:
        if self._open is None:
            return []
        signed = []
        if self._open == "reasoning":  # clients wait for it
            delta = {"type": "signature_delta", "signature": ""}
            signed.append({"type": "content_block_delta", "index": self._index, "delta": delta})
        self._open = None
        return [*signed, {"type": "content_block_stop", "index": self._index}]


_TAKES = (
    *("model", "messages", "system", "stream", "stop_sequences", "thinking", "output_config"),
    *("tools", "tool_choice_object"),
)
FAMILY = Family(
    (
        Route(
            "POST",
            "/v1/messages",
            messages,
            takes=_TAKES,
            needs=("messages", "max_tokens"),
            samples=True,
        ),
        Route("POST", "/v1/messages/count_tokens", count_tokens, takes=_TAKES, needs=("messages",)),
    ),
    anthropic_error,
)
