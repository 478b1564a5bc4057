"""gpt-oss: messages of channels. analysis is reasoning, final is content, and a message to a
function is a call. Each message has a header, then its body.

<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>commentary to=functions.NAME
<|constrain|>json<|message|>{...}<|call|>
"""

import re

from edgellm.dialects.calls import json_arguments
from edgellm.dialects.functions import Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import Kind, Reader, Reading

START, CHANNEL, MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
CONSTRAIN, END, CALL = "<|constrain|>", "<|end|>", "<|call|>"
_ENDS = (END, CALL, "<|return|>", START)
MARKS = (START, CHANNEL, MESSAGE, CONSTRAIN, END)
_MOST = 512  # characters of a header
_RECIPIENT = re.compile(r"to=functions\.([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


def read(reader: Reader) -> Reading[None]:
    """The answer begins inside a header whose beginning is in the prompt."""
    is_inside = yield from reader.attempt(_message(reader), "")
    while True:
        mark = yield from reader.say_until(START, CHANNEL) if not is_inside else _next(reader)
        if mark is None:
            return
        is_inside = yield from reader.attempt(_message(reader, mark), mark)


def _next(reader: Reader) -> Reading[str | None]:
    """What begins the next message, whose marker is taken."""
    reader.drop_blanks()
    for mark in (START, CHANNEL):
        if (yield from reader.skip(mark)):
            return mark
    return (yield from reader.say_until(START, CHANNEL))


def _message(reader: Reader, before: str = "") -> Reading[None]:
    """One message; Malformed when what comes is no header."""
    head = before + (yield from reader.until(MESSAGE, *_ENDS, most=_MOST))
    yield from reader.expect(MESSAGE)
    channel, recipient = _CHANNEL.search(head), _RECIPIENT.search(head)
    if recipient is not None and recipient[1] in reader.functions:
        is_call = yield from reader.attempt(json_arguments(reader, recipient[1]), "")
        if is_call:
            yield from reader.skip_blanks()
    kind: Kind = "reasoning" if channel is not None and channel[1] == "analysis" else "content"
    reader.drop_blanks()
    mark = yield from reader.say_until(*_ENDS, kind=kind)
    if mark == START:
        reader.put_back(mark)


def write(lark: Lark, tools: Tools) -> str:
    calls = lark.either(
        f"{lark.text(f'commentary to=functions.{function.name} ')} {lark.mark(CONSTRAIN)} "
        f'"json" {lark.mark(MESSAGE)} {lark.json(function.schema)}'
        for function in tools.callable.values()
    )
    call = f"{_before(lark)} {lark.mark(CHANNEL)} {calls}"
    return call if tools.choice == "required" else f"({call} | {say(lark, lark.any())})"


def say(lark: Lark, said: str) -> str:
    """An answer whose content is what the expression `said` is."""
    return f'{_before(lark)} {lark.mark(CHANNEL)} "final" {lark.mark(MESSAGE)} {said}'


def _before(lark: Lark) -> str:
    """The messages before the last one."""

    def message(channel: str) -> str:
        head = f"{lark.mark(CHANNEL)} {lark.text(channel)} {lark.mark(MESSAGE)}"
        return f'{head} {lark.until(END)} {lark.mark(START)} "assistant"'

    return f"({message('analysis')} | {message('commentary')})*"
