"""A conversation as data: a tree of messages, and the branch of it that is shown.

Knows nothing of storage, screens or engines.
"""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from edgellm.errors import RequestError

Role = Literal["user", "assistant"]

UNTITLED = "New chat"
_TITLE_LENGTH = 48


def new_id() -> int:
    """An id that two programs writing at once do not both take. Never 0."""
    return secrets.randbits(62) + 1


@dataclass(frozen=True)
class Message:
    """One message of the tree.

    parent: the message it follows; None begins a conversation. finish_reason: None while it is
    being written, or for ever when the program was killed meanwhile; else "stop", "length",
    "abort" or "error". token_ids: of an answer, as the model gave them. prompt_tokens: what an
    answer was computed from. first_token: seconds until it began; tokens_per_second: from then on.
    thoughts: what an answer's model thought before `content`, and the seconds that took.
    """

    role: Role
    content: str = ""
    parent: int | None = None
    id: int = field(default_factory=new_id)
    created: float = field(default_factory=time.time)
    finish_reason: str | None = "stop"
    model: str | None = None
    token_ids: tuple[int, ...] = ()
    prompt_tokens: int = 0
    first_token: float | None = None
    tokens_per_second: float | None = None
    thoughts: str = ""
    thought_seconds: float | None = None


@dataclass(frozen=True)
class Conversation:
    """What a list of conversations shows, and what is set for one.

    settings: fields of SamplingParams that differ from the model's, and "thinking". head: the last
    message of the branch that is shown.
    """

    id: int = field(default_factory=new_id)
    title: str = UNTITLED
    model: str | None = None
    system: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    pinned: bool = False
    archived: bool = False
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    head: int | None = None


class Chat:
    """A conversation with its messages. Changed in place; its parts are immutable."""

    def __init__(
        self, conversation: Conversation | None = None, messages: Iterable[Message] = ()
    ) -> None:
        self.conversation = conversation or Conversation()
        self.messages = {message.id: message for message in messages}
        if self.conversation.head not in self.messages:  # never seen whole, or of another program
            newest = max(self.messages.values(), key=lambda m: m.created, default=None)
            self.change(head=newest and newest.id)

    @property
    def id(self) -> int:
        return self.conversation.id

    @property
    def head(self) -> Message | None:
        """The last message shown."""
        head = self.conversation.head
        return None if head is None else self.messages[head]

    def change(self, **changes: Any) -> None:
        """Replaces fields of the conversation."""
        self.conversation = replace(self.conversation, **changes)

    def put(self, message: Message, show: bool = True) -> None:
        """Adds a message, or replaces the one with its id; it becomes the head if it is to show."""
        self.messages[message.id] = message
        if show:
            self.change(head=message.id, updated=time.time())

    def path(self, last: int | None = None) -> list[Message]:
        """The messages from the first to `last`, or to the head."""
        path: list[Message] = []
        at = self.conversation.head if last is None else last
        while at is not None and at in self.messages:
            path.append(self.messages[at])
            at = path[-1].parent
        return path[::-1]

    def last(self, role: str) -> Message | None:
        """The last message of that role on the branch that is shown."""
        return next((m for m in reversed(self.path()) if m.role == role), None)

    def children(self, parent: int | None) -> list[Message]:
        """The messages that follow one, oldest first; None: those that begin the conversation."""
        found = [message for message in self.messages.values() if message.parent == parent]
        return sorted(found, key=lambda message: message.created)

    def siblings(self, message: Message) -> list[Message]:
        """The branches that part where this message begins, itself among them."""
        return self.children(message.parent)

    def show_branch(self, message: Message) -> None:
        """Makes the newest leaf below the message the head."""
        while following := self.children(message.id):
            message = following[-1]
        self.change(head=message.id)

    def remove(self, message: Message) -> list[int]:
        """Takes out a message and all below it; the head moves up if it was there. Their ids."""
        below = [message.id]
        for parent in below:  # grows as it goes
            below += [child.id for child in self.children(parent)]
        if any(shown.id == message.id for shown in self.path()):
            self.change(head=message.parent)
        for gone in below:
            del self.messages[gone]
        return below


def refuse_circles(messages: Iterable[Message]) -> None:
    """RequestError when messages of a file follow each other for ever."""
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


def as_openai(system: str, path: Sequence[Message]) -> list[dict[str, str]]:
    """The messages as chat templates take them, which know whether thoughts are told again."""
    said = [{"role": message.role, "content": message.content} for message in path]
    for shaped, message in zip(said, path, strict=True):
        if message.thoughts:
            shaped["reasoning_content"] = message.thoughts
    return [{"role": "system", "content": system}, *said] if system else said


def model_name(model: str | None) -> str:
    """A model's name; of a file of the user's own, the file's."""
    return Path(model).stem if model and model.endswith(".gguf") else model or "no model"


def title_of(text: str) -> str:
    """A title from the first words that were said."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), UNTITLED)
    if len(line) <= _TITLE_LENGTH:
        return line
    return line[:_TITLE_LENGTH].rsplit(" ", 1)[0].rstrip(",.;: ") + "…"
