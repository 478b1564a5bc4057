"""A conversation as Markdown for people, and as JSON with all of its branches, which can be read
back. Knows no screen."""

import json
from dataclasses import asdict, replace
from typing import Any

from edgellm.errors import RequestError
from edgellm.escapes import well_formed
from edgellm.tui.chat import (
    UNTITLED,
    Chat,
    Conversation,
    Message,
    model_name,
    new_id,
    refuse_circles,
)
from edgellm.tui.foreign import read_foreign

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
_MOST = 2**63 - 1  # of any number that the history can keep


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


def read_chats(text: str) -> list[Chat]:
    """New conversations from `to_json`, or from what another program has saved; see `foreign`.

    RequestError when it is neither.
    """
    try:
        body = _well_formed(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"not a JSON file: {error}") from None
    if isinstance(body, dict) and body.get("format") == FORMAT:
        return [_from_own(body)]
    found = read_foreign(body)
    if found is None:
        raise RequestError(
            f'neither a chat saved by edgellm ("format": "{FORMAT}") nor one of ChatGPT, Open '
            'WebUI or LM Studio, nor a list of messages with "role" and "content"'
        )
    return found


def _well_formed(value: Any) -> Any:
    """A JSON value whose texts can all be written."""
    match value:
        case str():
            return well_formed(value)
        case list():
            return [_well_formed(item) for item in value]
        case dict():
            return {well_formed(key): _well_formed(item) for key, item in value.items()}
    return value


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
    refuse_circles(messages)
    return Chat(conversation, messages)


def _message(row: Any) -> Message:
    if not isinstance(row, dict) or set(row) | set(_SINCE_2) != set(_KINDS):
        raise RequestError(f"a message of the file has other fields than {sorted(_KINDS)}")
    row = {**_SINCE_2, **row}
    for name, kinds in _KINDS.items():
        value: Any = row[name]
        is_kept = not isinstance(value, int | float) or abs(value) <= _MOST
        if not isinstance(value, kinds) or not is_kept:
            raise RequestError(f"a message of the file has {name} {str(value)[:80]!r}")
    if row["role"] not in _ROLES or not all(isinstance(i, int) for i in row["token_ids"]):
        raise RequestError("a message of the file has an unknown role or bad token ids")
    return Message(**{**row, "token_ids": tuple(row["token_ids"])})
