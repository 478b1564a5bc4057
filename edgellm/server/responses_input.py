"""The input of OpenAI's responses API as messages of a chat, as its chat API writes them."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from edgellm.errors import RequestError
from edgellm.server import fields as f
from edgellm.types import Message


def messages_of(fields: Mapping[str, Any]) -> list[Message]:
    """The messages that `input` stands for: a text of the user, or items."""
    given = fields.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    shaped: list[Message] = []
    for i, item in enumerate(f.objects(fields, "input")):
        shaped += _messages(item, f"input[{i}]")
    return joined(shaped)


def joined(messages: Iterable[Message]) -> list[Message]:
    """The same, with what the model thought, said and called in one turn in one message."""
    found: list[Message] = []
    for message in messages:
        before = found[-1] if found else None
        if before is None or not _goes_on(before, message):
            found.append(message)
            continue
        calls = [*before.get("tool_calls", ()), *message.get("tool_calls", ())]
        thought = before.get("reasoning_content") or message.get("reasoning_content")
        said = before.get("content") or message.get("content") or ""
        found[-1] = {
            "role": "assistant",
            "content": said,
            **({"tool_calls": calls} if calls else {}),
            **({"reasoning_content": thought} if thought else {}),
        }
    return [message for message in found if not _is_thought(message)]


def _goes_on(before: Message, message: Message) -> bool:
    """Whether a message belongs to the one before: a thought and what follows, or calls."""
    if before.get("role") != "assistant" or message.get("role") != "assistant":
        return False
    if _is_thought(message):
        return False
    return _is_thought(before) or bool(message.get("tool_calls"))


def _is_thought(message: Message) -> bool:
    return "reasoning_content" in message and not (
        message.get("content") or message.get("tool_calls")
    )


def _messages(item: Mapping[str, Any], where: str) -> list[Message]:
    """The message that an item stands for, if any."""
    match item.get("type", "message"):
        case "message":
            return [
                {
                    "role": item.get("role"),
                    "content": _text(item.get("content"), f"{where}.content"),
                }
            ]
        case "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments") or "{}"}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            return [{"role": "assistant", "content": "", "tool_calls": [call]}]
        case "function_call_output":
            output = item.get("output")
            is_text = output is None or isinstance(output, str | list)
            content = _text(output, f"{where}.output") if is_text else json.dumps(output)
            return [{"role": "tool", "tool_call_id": item.get("call_id"), "content": content}]
        case "reasoning":
            thought = _text(item.get("content") or "", f"{where}.content")
            return [{"role": "assistant", "reasoning_content": thought}] if thought else []
        case "item_reference":
            return []
    raise RequestError(f"{where} has the type {item.get('type')!r}: it cannot be read", "input")


def _text(content: Any, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not parts or not all(isinstance(text, str) for text in texts):
        raise RequestError(f"{where} holds what is no text: only text can be read", "input")
    return "\n".join(text for text in texts if text)
