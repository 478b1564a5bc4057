"""Results of tools as templates take them. Knows nothing of Jinja; messages are checked already."""

import hashlib
import json
import re
from typing import Any

_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")


def shape_results(messages: list[dict[str, Any]], in_calling: bool) -> list[dict[str, Any]]:
    """The messages, each result with the name of the function that gave it.

    in_calling: results are `tool_responses` of the message that called, not messages of their own.
    """
    names: dict[Any, str] = {}
    shaped: list[dict[str, Any]] = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            if "id" in call:
                names[call["id"]] = call.get("function", call)["name"]
        if message["role"] == "tool":
            name = names.get(message.get("tool_call_id"))
            if name is not None:
                message = {"name": name, **message}
            if in_calling and shaped and shaped[-1].get("tool_calls"):
                shaped[-1] = _answered(shaped[-1], message)
                continue
        shaped.append(message)
    return shaped


def with_short_ids(message: dict[str, Any]) -> dict[str, Any]:
    """The message with ids of calls of nine letters or digits; the same id becomes the same."""
    shaped = dict(message)
    if isinstance(shaped.get("tool_call_id"), str):
        shaped["tool_call_id"] = _short(shaped["tool_call_id"])
    if shaped.get("tool_calls"):
        shaped["tool_calls"] = [
            {**call, "id": _short(str(call.get("id")))} for call in shaped["tool_calls"]
        ]
    return shaped


def _answered(calling: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    try:
        response = json.loads(result["content"])
    except (ValueError, TypeError, RecursionError):
        response = result["content"]
    entry = {"name": result.get("name", "unknown"), "response": response}
    before = calling.get("tool_responses")
    return {**calling, "tool_responses": [*(before if isinstance(before, list) else ()), entry]}


def _short(call_id: str) -> str:
    if _SHORT_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]
