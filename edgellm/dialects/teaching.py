"""Conversations for models whose template knows no tools: all that concerns them is said in words.

Knows no template; what it writes stands in messages of system, user and assistant.
"""

import json
from collections.abc import Mapping
from typing import Any

from edgellm.dialects.functions import Tools
from edgellm.types import Message, Messages


def taught(messages: Messages, tools: Tools) -> Messages:
    """The conversation with calls and results as text, and with a lesson where there are tools.

    The lesson is in the system message, or where there is none, as some templates take none, in the
    first of the user.
    """
    if not all(isinstance(message, Mapping) for message in messages):
        return messages  # whoever renders them says what is expected
    shaped = _spoken(messages)
    if not tools.callable:
        return shaped
    lesson = _lesson(tools)
    for i, message in enumerate(shaped):
        said = _said(message.get("content"))
        if message.get("role") in ("system", "developer"):
            return [*shaped[:i], {**message, "content": f"{said}\n\n{lesson}"}, *shaped[i + 1 :]]
        if message.get("role") == "user":
            return [*shaped[:i], {**message, "content": f"{lesson}\n\n{said}"}, *shaped[i + 1 :]]
    return [{"role": "user", "content": lesson}, *shaped]


def _lesson(tools: Tools) -> str:
    functions = [tool["function"] for tool in tools.described]
    listed = "\n".join(
        json.dumps({key: f.get(key) for key in ("name", "description", "parameters")})
        for f in functions
        if f["name"] in tools.callable
    )
    must = "Call one now" if tools.choice == "required" else "To call one"
    return (
        f"You can call these functions:\n{listed}\n"
        f"{must}: answer with JSON and nothing else, in this form: "
        '{"name": "the function", "arguments": {"a parameter": "its value"}}'
    )


def _spoken(messages: Messages) -> list[Message]:
    """Results are the user's words, joined to those beside them: many templates want the roles to
    take turns."""
    shaped: list[Message] = []
    was_result = False
    for message in messages:
        is_result = message.get("role") == "tool"
        spoken = _result(message) if is_result else _calls(message)
        last = shaped[-1] if shaped else {}
        if spoken.get("role") == last.get("role") == "user" and (is_result or was_result):
            joined = f"{_said(last.get('content'))}\n{_said(spoken.get('content'))}"
            shaped[-1] = {**spoken, "content": joined}
        else:
            shaped.append(spoken)
        was_result = is_result
    return shaped


def _result(message: Message) -> Message:
    name = message.get("name") or "the function"
    return {"role": "user", "content": f"Result of {name}: {_said(message.get('content'))}"}


def _calls(message: Message) -> Message:
    """A message of calls as its text and the calls, a line each."""
    if not message.get("tool_calls"):
        return message
    lines = [said] if (said := _said(message.get("content"))) else []
    for call in message["tool_calls"]:
        function = call.get("function", call) if isinstance(call, Mapping) else {}
        entry = {"name": function.get("name"), "arguments": _object(function.get("arguments"))}
        lines.append(json.dumps(entry, ensure_ascii=False))
    return {"role": "assistant", "content": "\n".join(lines)}


def _object(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments or {}
    except ValueError:
        return arguments


def _said(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(p.get("text", "")) for p in content if isinstance(p, Mapping))
    return str(content or "")
