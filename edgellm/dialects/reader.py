"""Reads an answer while it is being written: what a dialect is written with. Knows no dialect.

A dialect is a coroutine: it calls these methods with `yield from`, reads like code that has the
whole text, and stands still wherever the text so far leaves a question open. So it gives the same
parts whether the text comes all at once or letter by letter.
"""

import os
from collections.abc import Callable, Generator, Mapping
from typing import Literal, TypeVar

from edgellm.dialects.functions import Function
from edgellm.dialects.json_scan import JsonScan, Malformed
from edgellm.dialects.parts import CallPart, Part, TextPart, merged
from edgellm.escapes import well_formed

T = TypeVar("T")
Reading = Generator[None, None, T]  # yields where more text is needed
Kind = Literal["content", "reasoning"]
MAX_NAME = 256  # characters of a function's or a parameter's name


class Reader:
    """The text of one answer, and the parts it becomes.

    functions: those that may be called, by name. streams: arguments of calls of these go out as
    they come; else with the call's end, so that a call that is not well-formed becomes text.
    """

    def __init__(self, functions: Mapping[str, Function], streams: bool = False) -> None:
        self.functions = functions
        self._streams = streams
        self._text = ""
        self._at = 0  # what is before is read
        self._is_over = False
        self._parts: list[Part] = []
        self._blank = ""  # said, unless a marker follows
        self._kind: Kind = "content"
        self._is_edge = False  # blanks that come now belong to the marker before
        self._num_calls = 0
        self._call: list[CallPart] | None = None  # of the call being read, not yet sent
        self._is_live = False  # it is sent as it comes
        self._committed = 0  # what is before has become calls

    # The caller's side.

    def feed(self, text: str, is_over: bool = False) -> None:
        self._text += text
        self._is_over = is_over

    def drain(self) -> list[Part]:
        """The parts that have become certain since the last time."""
        parts, self._parts = self._parts, []
        return parts

    # Looking and taking.

    def peek(self, count: int = 1) -> Reading[str]:
        """The next characters, fewer only where the text ends."""
        while len(self._text) - self._at < count and not self._is_over:
            yield
        return self._text[self._at : self._at + count]

    def take(self, count: int) -> str:
        """Characters that were seen already."""
        taken = self._text[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def put_back(self, text: str) -> None:
        """What was taken last is still to come."""
        self._at -= len(text)

    def blanks(self) -> Reading[str]:
        """White space, taken."""
        start = self._at
        while (yield from self.peek()).isspace():
            self._at += 1
        return self._text[start : self._at]

    def skip_blanks(self) -> Reading[None]:
        yield from self.blanks()

    def skip(self, text: str) -> Reading[bool]:
        """Whether the text comes next; it is taken then."""
        for count in range(1, len(text) + 1):
            if (yield from self.peek(count)) != text[:count]:
                return False
        self._at += len(text)
        return True

    def expect(self, text: str) -> Reading[None]:
        """Malformed when something else comes next."""
        if not (yield from self.skip(text)):
            raise Malformed

    def until(self, *marks: str, most: int | None = None) -> Reading[str]:
        """The text before the first of the marks, which stay. Malformed when there is none within
        `most` characters."""
        start, seen, longest = self._at, self._at, max(map(len, marks))
        while (found := self._first(marks, seen)) is None:
            size = len(self._text)
            if self._is_over or (most is not None and size - start >= most + longest):
                raise Malformed
            seen = max(seen, size - longest + 1)
            yield
        if most is not None and found[0] - start > most:
            raise Malformed
        self._at = found[0]
        return self._text[start : self._at]

    def rest(self) -> Reading[str]:
        """All that is still to come."""
        while not self._is_over:
            yield
        return self.take(len(self._text) - self._at)

    def json(self, give: Callable[[str], None]) -> Reading[None]:
        """A JSON value, given on piece by piece. Malformed as soon as it is none."""
        scan = JsonScan()
        while True:
            while self._at == len(self._text):
                if self._is_over:
                    give(scan.finish())
                    return
                yield
            taken, written = scan.push(self._text[self._at :])
            self._at += taken
            if written:
                give(written)
            if scan.is_done:
                return

    # Saying.

    def say(self, text: str, kind: Kind = "content") -> None:
        """What is no marker. Blanks beside markers are dropped."""
        if kind != self._kind:
            self._blank, self._kind = "", kind
        if self._is_edge:
            text = text.lstrip()
        if not text:
            return
        self._is_edge = False
        text = self._blank + text
        bare = text.rstrip()
        self._blank = text[len(bare) :]
        if bare:
            self._parts.append(TextPart(bare, kind))

    def say_until(self, *marks: str, kind: Kind = "content") -> Reading[str | None]:
        """Says all before the first of the marks, which is taken; None when there is none."""
        while True:
            found = self._first(marks, self._at)
            if found is not None:
                at, mark = found
                self.say(self._text[self._at : at], kind)
                self._at = at + len(mark)
                return mark
            end = len(self._text) if self._is_over else self._maybe(marks)
            self.say(self._text[self._at : end], kind)
            self._at = end
            if self._is_over:
                return None
            yield

    def say_rest(self) -> Reading[None]:
        """Says all that is still to come."""
        while True:
            self.say(self.take(len(self._text) - self._at))
            if self._is_over:
                return
            yield

    def drop_blanks(self) -> None:
        """A marker is here: blanks on either side of it are not said."""
        self._blank, self._is_edge = "", True

    def end(self) -> None:
        """The answer is over: what was held back is said."""
        if self._blank:
            self._parts.append(TextPart(self._blank, self._kind))
            self._blank = ""

    # Calling.

    def attempt(self, read: Reading[None], marker: str) -> Reading[bool]:
        """Reads what follows a marker; when it is malformed, marker and all are text again."""
        start = self._at
        try:
            yield from read
            return True
        except Malformed:
            if self._call is not None and self._is_live:
                self._call = None  # what has gone out stands
                self._num_calls += 1
                return False
            self._call = None
            if self._committed > start:  # of several calls, the first ones were good
                self._at = self._committed
                return False
            self._at = start
            self._is_edge = self._is_edge and not marker
            self.say(marker)
            return False

    def open_call(self, name: str, call_id: str | None = None) -> None:
        """A call begins, with an id of the model's own if it has one. Malformed when it cannot."""
        if not name or len(name) > MAX_NAME or any(c.isspace() for c in name):
            raise Malformed
        self._call, self._is_live = [], self._streams and name in self.functions
        own = call_id or f"call_{os.urandom(12).hex()}"
        self._send(CallPart(self._num_calls, "", own, well_formed(name)))

    def add_arguments(self, text: str) -> None:
        """More of the JSON text; no half of a surrogate pair is at either end."""
        self._send(CallPart(self._num_calls, well_formed(text)))

    def close_call(self) -> None:
        assert self._call is not None, "no call is open"
        self.drop_blanks()
        self._parts += [*self._call, CallPart(self._num_calls, "", is_end=True)]
        self._call, self._committed = None, self._at
        self._num_calls += 1

    def _send(self, part: CallPart) -> None:
        assert self._call is not None, "no call is open"
        if self._is_live:
            self.drop_blanks()
            self._parts.append(part)
        else:
            self._call.append(part)

    def _first(self, marks: tuple[str, ...], start: int) -> tuple[int, str] | None:
        """The mark that begins first and where."""
        found = [(at, mark) for mark in marks if (at := self._text.find(mark, start)) >= 0]
        return min(found) if found else None

    def _maybe(self, marks: tuple[str, ...]) -> int:
        """Where the longest end of the text begins that may become a mark; else its length."""
        size = len(self._text)
        for start in range(max(self._at, size - max(map(len, marks)) + 1), size):
            if any(mark.startswith(self._text[start:]) for mark in marks):
                return start
        return size


class ReadingParser:
    """A Parser that runs a dialect's coroutine."""

    def __init__(self, reader: Reader, reading: Reading[None]) -> None:
        self._reader = reader
        self._reading = reading

    def push(self, text: str) -> list[Part]:
        self._reader.feed(text)
        return self._run()

    def finish(self) -> list[Part]:
        self._reader.feed("", is_over=True)
        return self._run()

    def _run(self) -> list[Part]:
        next(self._reading, None)
        return merged(self._reader.drain())
