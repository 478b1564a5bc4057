"""A conversation as Markdown for people, and as JSON with all of its branches, which can be read
back. Knows no screen."""

import json
from dataclasses import asdict, replace
from typing import Any

from edgellm.errors import RequestError
from edgellm.tui.chat import UNTITLED, Chat, Conversation, Message, model_name, new_id, title_of

FORMAT = "edgellm-chat"
_VERSIONS = (1, 2)  # those that are read; the last one is written
_KINDS: dict[str, tuple[type, ...]] = {
    "id": (int,),
    "parent": (int, type(None)),
    "role": (str,),
    "content": (str,),
    "created": (int, float),
    "finish_reason": (str, type(None)),
    "model": (str, type(None)),
    "token_ids": (list,),
    "prompt_tokens": (int,),
    "first_token": (int, float, type(None)),
    "tokens_per_second": (int, float, type(None)),
    "thoughts": (str,),
    "thought_seconds": (int, float, type(None)),
}
_SINCE_2: dict[str, Any] = {"thoughts": "", "thought_seconds": None}
_ROLES = ("user", "assistant")


def to_markdown(chat: Chat) -> str:
    """The branch that is shown."""
    parts = [f"# {chat.conversation.title}"]
    if chat.conversation.system:
        parts.append(_quoted("", chat.conversation.system))
    for message in chat.path():
        who = "You" if message.role == "user" else model_name(message.model)
        thoughts = f"{_quoted('Thoughts', message.thoughts)}\n\n" if message.thoughts else ""
        parts.append(f"## {who}\n\n{thoughts}{message.content}")
    return "\n\n".join(parts) + "\n"


def _quoted(heading: str, text: str) -> str:
    lines = ([f"**{heading}**", ""] if heading else []) + text.split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines)


def to_json(chat: Chat) -> str:
    """All branches; `from_json` reads it."""
    conversation = {
        name: value
        for name, value in asdict(chat.conversation).items()
        if name not in ("id", "pinned", "archived")
    }
    body = {
        "format": FORMAT,
        "version": _VERSIONS[-1],
        "conversation": conversation,
        "messages": [asdict(message) for message in chat.messages.values()],
    }
    return json.dumps(body, ensure_ascii=False, indent=2) + "\n"


def from_json(text: str) -> Chat:
    """A new conversation from `to_json`, or from a list of OpenAI messages.

    RequestError when it is neither.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"not a JSON file: {error}") from None
    if isinstance(body, dict) and body.get("format") == FORMAT:
        return _from_own(body)
    messages = body.get("messages") if isinstance(body, dict) else body
    if isinstance(messages, list) and messages and all(map(_is_openai, messages)):
        return _from_openai(messages)
    raise RequestError(
        f'neither a conversation saved by edgellm ("format": "{FORMAT}") nor a list of messages '
        'with "role" and "content"'
    )


def _from_own(body: dict[str, Any]) -> Chat:
    if body.get("version") not in _VERSIONS:
        raise RequestError(f"version {body.get('version')!r} of the file: {_VERSIONS[-1]} is known")
    given, rows = body.get("conversation"), body.get("messages")
    if not isinstance(given, dict) or not isinstance(rows, list):
        raise RequestError("the file has no conversation or no messages")
    found = [_message(row) for row in rows]
    fresh = {message.id: new_id() for message in found}
    messages = [
        replace(
            message,
            id=fresh[message.id],
            parent=None if message.parent is None else fresh.get(message.parent),
        )
        for message in found
    ]
    head = given.get("head")
    settings = given.get("settings")
    conversation = Conversation(
        title=str(given.get("title") or UNTITLED),
        model=None if given.get("model") is None else str(given["model"]),
        system=str(given.get("system") or ""),
        settings=settings if isinstance(settings, dict) else {},
        head=fresh.get(head) if isinstance(head, int) else None,
    )
    _refuse_circles(messages)
    return Chat(conversation, messages)


def _message(row: Any) -> Message:
    if not isinstance(row, dict) or set(row) | set(_SINCE_2) != set(_KINDS):
        raise RequestError(f"a message of the file has other fields than {sorted(_KINDS)}")
    row = {**_SINCE_2, **row}
    for name, kinds in _KINDS.items():
        if not isinstance(row[name], kinds):
            raise RequestError(f"a message of the file has {name} {row[name]!r}")
    if row["role"] not in _ROLES or not all(isinstance(i, int) for i in row["token_ids"]):
        raise RequestError("a message of the file has an unknown role or bad token ids")
    return Message(**{**row, "token_ids": tuple(row["token_ids"])})


def _refuse_circles(messages: list[Message]) -> None:
    parent = {message.id: message.parent for message in messages}
    known_good: set[int] = set()
    for start in parent:
        trail: list[int] = []
        at: int | None = start
        while at is not None and at not in known_good:
            if len(trail) > len(parent):
                raise RequestError("the messages of the file follow each other in a circle")
            trail.append(at)
            at = parent.get(at)
        known_good.update(trail)


def _is_openai(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and message.get("role") in (*_ROLES, "system", "developer")
        and isinstance(message.get("content"), str)
    )


def _from_openai(messages: list[dict[str, str]]) -> Chat:
    chat = Chat()
    for message in messages:
        if message["role"] in ("system", "developer"):
            chat.change(system=message["content"])
            continue
        role: Any = message["role"]
        thoughts = message.get("reasoning_content")
        known = thoughts if role == "assistant" and isinstance(thoughts, str) else ""
        parent = chat.conversation.head
        chat.put(Message(role, message["content"], parent=parent, thoughts=known))
    said = (message.content for message in chat.path() if message.role == "user")
    chat.change(title=title_of(next(said, "")))
    return chat
