"""An answer read by its model's own markers: what it says apart from what was thought before it.

Knows no engine's events and no screen.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from edgellm.client import Client
from edgellm.dialects import (
    TAIL,
    Answering,
    Part,
    TextPart,
    Thinking,
    plan,
    thinking_variables,
)
from edgellm.tui.chat import Message
from edgellm.types import Messages, SamplingParams


@dataclass(frozen=True)
class Manner:
    """How a model's answers to one prompt are asked for and read.

    is_open: the prompt ends inside the thoughts, which the answer then only closes.
    """

    answering: Answering
    thinking: Thinking | None
    is_open: bool

    def read(self, text: str) -> tuple[str, str]:
        """What a whole text says, and the thoughts before that."""
        reading = Reading(self)
        reading.push(text)
        reading.finish()
        return reading.text, reading.thoughts

    def written(self, message: Message) -> str:
        """The text that would be read as this message."""
        if self.thinking is None or not (message.thoughts or self.is_open):
            return message.content
        start = "" if self.is_open else f"{self.thinking.open}{self.thinking.label}\n"
        thought = f"{start}{message.thoughts}\n{self.thinking.close}\n\n"
        return thought + message.content if message.content else start + message.thoughts


async def chat_ids(
    client: Client, messages: Messages, model: str, thinking: str | None
) -> tuple[int, ...]:
    """A conversation as token ids. thinking: one of LEVELS, for models that have a switch."""
    details = await client.details(model)
    variables = thinking_variables(details, thinking) if thinking else None
    return await client.chat_ids(messages, model=model, variables=variables)


async def manner_of(
    client: Client, model: str, params: SamplingParams, prompt: Sequence[int]
) -> Manner:
    """How this model answers a prompt. RequestError as of `Plan.answering`."""
    asked = plan(await client.details(model))
    tail = await client.detokenize(prompt[-TAIL:], model)
    is_open = asked.thinking is not None and tail.rstrip().endswith(asked.thinking.open)
    return Manner(asked.answering(params, tail), asked.thinking, is_open)


class Reading:
    """A text that comes in pieces. What it says and the thoughts grow at their ends alone."""

    def __init__(self, manner: Manner) -> None:
        self._parser = manner.answering.parser()
        self._said: list[str] = []
        self._thought: list[str] = []
        self._began: float | None = None  # the first thought
        self._ended: float | None = None  # the first word that was no thought

    @property
    def text(self) -> str:
        return _joined(self._said)

    @property
    def thoughts(self) -> str:
        return _joined(self._thought)

    @property
    def is_thinking(self) -> bool:
        return self._began is not None and self._ended is None

    @property
    def seconds(self) -> float | None:
        """How long the thoughts took, so far; None without any."""
        if self._began is None:
            return None
        return (self._ended or time.monotonic()) - self._began

    def push(self, text: str) -> None:
        self._take(self._parser.push(text))

    def finish(self) -> None:
        """The text is over."""
        self._take(self._parser.finish())
        self._ended = self._ended or time.monotonic()

    def _take(self, parts: list[Part]) -> None:
        now = time.monotonic()
        for part in parts:
            if not isinstance(part, TextPart):
                continue
            if part.kind == "reasoning":
                self._thought.append(part.text)
                self._began = self._began or now
            else:
                self._said.append(part.text)
                self._ended = self._ended or now


def _joined(pieces: list[str]) -> str:
    """All of it, kept as one piece."""
    if len(pieces) > 1:
        pieces[:] = ["".join(pieces)]
    return pieces[0] if pieces else ""


@dataclass(frozen=True)
class Begun:
    """What an answer begins with: its tokens, and the text that they say, markers and all."""

    ids: tuple[int, ...] = ()
    text: str = ""


async def begun_by(client: Client, message: Message, model: str, manner: Manner) -> Begun:
    """What an answer has so far, without the token that ended it.

    The ids are those that the model gave where they still say the text; else those of the text.
    """
    if not (message.content or message.thoughts):
        return Begun()
    if message.model == model and message.token_ids:
        pieces = await client.pieces(message.token_ids, model)
        for count in (len(pieces), len(pieces) - 1):
            text = "".join(pieces[:count])
            said, thoughts = manner.read(text)
            # Blanks at the end are read late: they may belong to a marker.
            if (said.rstrip(), thoughts.rstrip()) == (
                message.content.rstrip(),
                message.thoughts.rstrip(),
            ):
                return Begun(message.token_ids[:count], text)
    text = manner.written(message)
    is_marked = text != message.content
    ids = await client.tokenize(text, add_special=False, parse_special=is_marked, model=model)
    return Begun(tuple(ids), text)
