"""Checks a conversation and shapes it for one template. Knows nothing of Jinja or models.

Messages follow the OpenAI chat API. Templates differ in what they can take: whether content may be
a list of parts or null, whether tool arguments are an object or JSON text. What a template can take
is read from its source, once, into `Traits`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgellm.chat_template.results import shape_results, with_short_ids
from edgellm.errors import RequestError

ROLES = frozenset(["system", "developer", "user", "assistant", "tool"])

_ROLE = r"""role['"]?\]?(?:\s*\|\s*(?:lower|upper))?\s*[!=]=\s*['"](\w+)['"]"""
_CONTENT = r"""content['"]?\]?"""
_ARGUMENTS = r"""arguments['"]?\]?\)?"""
_OTHER_NAME = rf"""set\s+(\w+)\s*=\s*[\w.\[\]'"]*\b{_ARGUMENTS}\s*-?%"""
_MAX_OTHER_NAMES = 8  # that a template gives them


@dataclass(frozen=True)
class Traits:
    """What a template's source shows that it can take."""

    roles: frozenset[str]  # those of the API, and what it compares a role with
    developer_role: bool
    null_content: bool  # it tests content for none
    only_parts: bool  # it walks over the parts of content and never expects text
    json_arguments: bool  # it adds tool arguments to text as they are
    undefined_tools: bool  # it takes "tools is defined" for "there are tools"
    short_ids: bool  # it takes ids of calls with 9 letters or digits alone
    tool_responses: bool  # results of tools are in the message that called them


def read_traits(source: str) -> Traits:
    """The traits of a template, found by the constructs it uses."""

    def has(pattern: str) -> bool:
        return re.search(pattern, source) is not None

    walks_parts = has(rf"\bfor\s+\w+\s+in\s+\w+(\.|\[['\"]){_CONTENT}\s*(%|-%|\|)")
    added = has(rf"[+~]\s*\(?[\w.\[\]'\"]*\b{_ARGUMENTS}\s*([+~)]|-?[%}}]\}}|if\b)")
    others = sorted(set(re.findall(_OTHER_NAME, source)))[:_MAX_OTHER_NAMES]
    named = "|".join([_ARGUMENTS, *others])
    as_object = has(
        rf"\b({named})\s*(is\s+(not\s+)?(string|mapping)|\|\s*(tojson|items|dictsort)|\.items\()"
    )
    return Traits(
        roles=ROLES.union(role.lower() for role in re.findall(_ROLE, source)),
        developer_role="developer" in source,
        null_content=has(rf"(\.|\[['\"]){_CONTENT}\s+is\s+(not\s+)?none"),
        only_parts=walks_parts and not has(r"is\s+(not\s+)?(string|iterable|sequence)"),
        json_arguments=added and not as_object,
        undefined_tools=has(r"\btools\s+is\s+defined")
        and not has(r"\btools\s+is\s+(not\s+)?none|\btools\s+is\s+defined\s+and\s+tools"),
        short_ids=has(r"\|\s*length\s*!=\s*9\b"),
        tool_responses="tool_responses" in source,
    )


def shape_messages(messages: Any, traits: Traits) -> list[dict[str, Any]]:
    """The conversation as the template takes it, in new containers.

    Raises RequestError("messages") that names the message and what is wrong with it.
    """
    if not _is_list(messages):
        raise _bad("messages", f"is {_kind(messages)}; a list of messages is expected")
    if not messages:
        raise _bad("messages", "is empty; at least one message is expected")
    shaped = [_message(message, f"messages[{i}]", traits) for i, message in enumerate(messages)]
    shaped = shape_results(shaped, traits.tool_responses)
    return [with_short_ids(message) for message in shaped] if traits.short_ids else shaped


def shape_tools(tools: Any) -> list[dict[str, Any]] | None:
    """The tools as a list of objects, None when there are none. Raises RequestError("tools")."""
    if tools is None:
        return None
    if not _is_list(tools) or not all(isinstance(tool, Mapping) for tool in tools):
        raise RequestError("tools must be a list of objects, each one function", field="tools")
    return [dict(tool) for tool in tools] or None


def _message(message: Any, where: str, traits: Traits) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise _bad(where, f"is {_kind(message)}; an object with role and content is expected")
    role = message.get("role")
    if not isinstance(role, str) or role not in traits.roles:
        expected = ", ".join(sorted(traits.roles))
        raise _bad(where, f"has the role {role!r}; this model takes {expected}")
    _check_id(message, "tool_call_id", where)
    shaped = dict(message)
    calls = message.get("tool_calls")
    if calls is not None:
        shaped["tool_calls"] = _tool_calls(calls, f"{where}.tool_calls", traits)
    shaped["content"] = _content(message, where, traits)
    if role == "developer" and not traits.developer_role:
        shaped["role"] = "system"
    return shaped


def _content(message: Mapping[str, Any], where: str, traits: Traits) -> Any:
    content = message.get("content")
    if content is None:
        if not any(message.get(key) for key in ("tool_calls", "reasoning_content", "thinking")):
            raise _bad(where, "has no content; text or a list of text parts is expected")
        return None if traits.null_content else ""
    if not isinstance(content, str):
        content = "\n".join(_parts(content, f"{where}.content"))
    return [{"type": "text", "text": content}] if traits.only_parts else content


def _parts(content: Any, where: str) -> list[str]:
    if not _is_list(content):
        raise _bad(where, f"is {_kind(content)}; text or a list of text parts is expected")
    for i, part in enumerate(content):
        if not isinstance(part, Mapping):
            raise _bad(
                f"{where}[{i}]", f"is {_kind(part)}; an object with type and text is expected"
            )
        if part.get("type") != "text":
            raise _bad(f"{where}[{i}]", f"has the type {part.get('type')!r}; only text can be read")
        if not isinstance(part.get("text"), str):
            raise _bad(f"{where}[{i}]", f"has {_kind(part.get('text'))} for its text")
    return [part["text"] for part in content]


def _tool_calls(calls: Any, where: str, traits: Traits) -> list[dict[str, Any]]:
    if not _is_list(calls):
        raise _bad(where, f"is {_kind(calls)}; a list of calls is expected")
    shaped = []
    for i, call in enumerate(calls):
        function = call.get("function", call) if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise _bad(f"{where}[{i}]", "has no function with a name")
        _check_id(call, "id", f"{where}[{i}]")
        function = {**function, "arguments": _arguments(function.get("arguments", {}), traits)}
        shaped.append({**call, "function": function} if "function" in call else function)
    return shaped


def _check_id(holder: Mapping[str, Any], key: str, where: str) -> None:
    """A call's id is text, where there is one; some write numbers."""
    value = holder.get(key)
    if not isinstance(value, str | int | None):
        raise _bad(where, f"has {key} {_kind(value)}; text is expected")


def _arguments(arguments: Any, traits: Traits) -> Any:
    """Clients send JSON text, as the API says; most templates expect the object it stands for."""
    if traits.json_arguments:
        return arguments if isinstance(arguments, str) else json.dumps(arguments)
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
        return value if isinstance(value, dict) else arguments
    return arguments


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _kind(value: Any) -> str:
    return "null" if value is None else f"of type {type(value).__name__}"


def _bad(where: str, what: str) -> RequestError:
    return RequestError(f"{where} {what}", field="messages")
