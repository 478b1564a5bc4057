"""GigaChat 3: a call is a message of a role of its own, which follows what is said.

CONTENT<|message_sep|>\\n\\nfunction call<|role_sep|>\\n{"name": ..., "arguments": ...}
"""

from edgellm.dialects.calls import json_call
from edgellm.dialects.functions import Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import Reader, Reading

OPEN, ROLE, CALL = "<|message_sep|>", "<|role_sep|>", "function call"
MARKS = (OPEN, ROLE)


def read(reader: Reader) -> Reading[None]:
    while (yield from reader.say_until(OPEN)) is not None:
        yield from reader.attempt(_call(reader), OPEN)


def _call(reader: Reader) -> Reading[None]:
    """A call, or the answer's end."""
    yield from reader.skip_blanks()
    if not (yield from reader.peek()):
        reader.drop_blanks()
        return
    yield from reader.expect(CALL + ROLE)
    yield from json_call(reader)


def write(lark: Lark, tools: Tools) -> str:
    head = f"{lark.text(chr(10) * 2 + CALL)} {lark.mark(ROLE)} {lark.text(chr(10))}"
    return lark.answer(tools, OPEN, f"{head} {lark.calls(tools, 'arguments')}")
