"""Conversations of other programs, from the JSON that they save: ChatGPT's export, Open WebUI's,
LM Studio's, and plain lists of OpenAI messages. Knows no screen.

Only text is taken: of pictures, tools and searches nothing is kept.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from edgellm.tui.chat import Chat, Message, new_id, refuse_circles, title_of

T = TypeVar("T")

_ROLES = ("user", "assistant")
_LATEST = 1e11  # seconds since 1970; larger numbers are no times in seconds


@dataclass(frozen=True)
class _Node:
    """A message of a tree before it has an id of ours. key, parent: the other program's ids."""

    key: Any
    parent: Any
    role: Any
    content: str
    created: Any = None
    model: Any = None
    thoughts: str = ""


def read_foreign(body: Any) -> list[Chat] | None:
    """The conversations of a parsed file; None when no program known here writes such.

    RequestError when messages follow each other in a circle.
    """
    many = body if isinstance(body, list) else [body]
    for fits, read in _FORMATS:
        if many and all(map(fits, many)):
            return [read(one) for one in many]
    if isinstance(body, list) and body and all(map(_is_message, body)):
        return [_openai({"messages": body})]
    return None


# One conversation of each program: whether it is one, and what becomes of it.


def _is_openai(body: Any) -> bool:
    messages = _of(body, "messages", list) or []
    return bool(messages) and all(map(_is_message, messages))


def _is_message(message: Any) -> bool:
    return _of(message, "role", str) in (*_ROLES, "system", "developer") and isinstance(
        _of(message, "content", str), str
    )


def _openai(body: Mapping[str, Any]) -> Chat:
    nodes, system, last = [], "", None
    for number, message in enumerate(body["messages"]):
        if message["role"] not in _ROLES:
            system = message["content"]
            continue
        thoughts = _of(message, "reasoning_content", str) or _of(message, "thinking", str) or ""
        role, content = message["role"], message["content"]
        nodes.append(_Node(number, last, role, content, thoughts=thoughts))
        last = number
    return _chat(nodes, last, _of(body, "title", str), system)


def _is_chatgpt(body: Any) -> bool:
    return isinstance(_of(body, "mapping", dict), dict)


def _chatgpt(body: Mapping[str, Any]) -> Chat:
    nodes, system = [], ""
    for key, entry in body["mapping"].items():
        message = _of(entry, "message", dict) or {}
        role = _of(_of(message, "author", dict), "role", str)
        content = _of(message, "content", dict) or {}
        parts = [part for part in _of(content, "parts", list) or () if isinstance(part, str)]
        text = "\n".join(parts)
        if role == "system":
            system, role = system or text, None
        model = _of(_of(message, "metadata", dict), "model_slug", str)
        created = message.get("create_time")
        nodes.append(_Node(key, _of(entry, "parent", str), role, text, created, model))
    return _chat(nodes, body.get("current_node"), _of(body, "title", str), system)


def _is_open_webui(body: Any) -> bool:
    history = _of(_of(body, "chat", dict), "history", dict)
    return isinstance(_of(history, "messages", dict), dict)


def _open_webui(body: Mapping[str, Any]) -> Chat:
    chat = body["chat"]
    history, nodes = chat["history"], []
    for key, message in history["messages"].items():
        parent, role = _of(message, "parentId", str), _of(message, "role", str)
        content = _of(message, "content", str) or ""
        created, model = _of(message, "timestamp", int), _of(message, "model", str)
        nodes.append(_Node(key, parent, role, content, created, model))
    system = _of(chat, "system", str) or ""
    return _chat(nodes, history.get("currentId"), _of(chat, "title", str), system)


def _is_lm_studio(body: Any) -> bool:
    messages = _of(body, "messages", list) or []
    return bool(messages) and all(_of(message, "versions", list) for message in messages)


def _lm_studio(body: Mapping[str, Any]) -> Chat:
    """Each message has versions, which are branches here; what follows goes on from the chosen."""
    nodes: list[_Node] = []
    last = None
    for place, message in enumerate(body["messages"]):
        chosen = _of(message, "currentlySelected", int) or 0
        for number, version in enumerate(message["versions"]):
            text, thoughts = _lm_studio_texts(version)
            role = _of(version, "role", str)
            nodes.append(_Node((place, number), last, role, text, thoughts=thoughts))
        last = (place, min(max(chosen, 0), len(message["versions"]) - 1))
    return _chat(nodes, last, _of(body, "name", str), _of(body, "systemPrompt", str) or "")


def _lm_studio_texts(version: Any) -> tuple[str, str]:
    """What a version says, and its thoughts: its own content, or that of its steps."""
    said: list[str] = []
    thought: list[str] = []
    for step in [version, *(_of(version, "steps", list) or ())]:
        is_thought = _of(_of(step, "style", dict), "type", str) == "thinking"
        for part in _of(step, "content", list) or ():
            text = _of(part, "text", str)
            if text is not None:
                (thought if is_thought else said).append(text)
    return "".join(said), "".join(thought)


_FORMATS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Chat]], ...] = (
    (_is_chatgpt, _chatgpt),
    (_is_open_webui, _open_webui),
    (_is_lm_studio, _lm_studio),
    (_is_openai, _openai),
)


def _chat(nodes: list[_Node], head: Any, title: str | None, system: str) -> Chat:
    """The conversation of these messages. Those that say nothing hand their place on."""
    known = {node.key: node for node in nodes}
    ids = {n.key: new_id() for n in nodes if n.role in _ROLES and (n.content or n.thoughts)}
    now = time.time()
    chat = Chat()
    for number, node in enumerate(nodes):
        if node.key not in ids:
            continue
        role: Any = node.role
        message = Message(
            role,
            node.content,
            parent=_said(ids, known, node.parent),
            id=ids[node.key],
            created=_time(node.created) or now + number * 1e-6,
            model=node.model,
            thoughts=node.thoughts if role == "assistant" else "",
        )
        chat.put(message)
    refuse_circles(chat.messages.values())
    last = _said(ids, known, head)
    if last is not None:
        chat.change(head=last)
    said = (message.content for message in chat.path() if message.role == "user")
    chat.change(title=title or title_of(next(said, "")), system=system)
    return chat


def _time(given: Any) -> float | None:
    """Seconds since 1970, if that is what is given."""
    is_time = isinstance(given, int | float) and 0 < given < _LATEST
    return float(given) if is_time else None


def _said(ids: Mapping[Any, int], known: Mapping[Any, _Node], key: Any) -> int | None:
    """The id of the message with this key, or of the nearest above it that says anything."""
    seen = set()
    while isinstance(key, str | int | tuple) and key in known and key not in seen:
        if key in ids:
            return ids[key]
        seen.add(key)
        key = known[key].parent
    return None


def _of(value: Any, name: str, kind: type[T]) -> T | None:
    """An entry of an object; None when there is none of this kind."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else None
