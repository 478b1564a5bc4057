"""One JSON value checked while it is being written (RFC 8259). Knows nothing of calls."""

import re

MAX_DEPTH = 64
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_BLANK = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[-+.0-9a-zA-Z]*")
_WHOLE_SCALAR = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false|null")
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{0,4})?')  # or its beginning
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_UNKNOWN = "\\ufffd"


class Malformed(Exception):
    """What is written is not what its marker promised."""


class JsonScan:
    """Follows one value. is_done: it is complete.

    Its text is passed on as it is, except that control characters inside strings, which models
    write where an escape belongs, are escaped, and the escape of half a surrogate pair without the
    other half, which is no text, becomes that of U+FFFD.
    """

    def __init__(self) -> None:
        self.is_done = False
        self._expects = "value"
        self._open = ""  # brackets around this place
        self._scalar = ""
        self._escape = ""  # of an escape in a string, so far
        self._half = ""  # the escape before, when another one may make it whole
        self._in_key = False

    def push(self, text: str) -> tuple[int, str]:
        """How much of the text belongs to the value, and what to pass on. Malformed."""
        at, written = 0, []
        while at < len(text) and not self.is_done:
            count, piece = self._step(text, at)
            at += count
            written.append(piece)
        return at, "".join(written)

    def finish(self) -> str:
        """The end of the text, which ends a number too. Malformed when the value is not whole."""
        self._end_scalar()
        if not self.is_done:
            raise Malformed
        return ""

    def _step(self, text: str, at: int) -> tuple[int, str]:
        if self._expects == "string":
            return self._string(text, at)
        if self._scalar:
            run = _SCALAR.match(text, at)
            assert run is not None
            if run[0]:
                self._scalar += run[0]
                if len(self._scalar) > 400:
                    raise Malformed
                return len(run[0]), run[0]
            self._end_scalar()
            return 0, ""
        blank = _BLANK.match(text, at)
        assert blank is not None
        if blank[0]:
            return len(blank[0]), blank[0]
        self._mark(text[at])
        return 1, text[at]

    def _mark(self, c: str) -> None:
        expects = self._expects
        if c == '"' and ("value" in expects or "key" in expects):
            self._in_key = "key" in expects
            self._expects = "string"
        elif c in "{[" and "value" in expects:
            if len(self._open) >= MAX_DEPTH:
                raise Malformed
            self._open += c
            self._expects = "key or end" if c == "{" else "value or end"
        elif c in "}]" and "end" in expects and self._open[-1:] == {"}": "{", "]": "["}[c]:
            self._open = self._open[:-1]
            self._end_value()
        elif c == "," and "comma" in expects:
            self._expects = "key" if self._open[-1] == "{" else "value"
        elif c == ":" and expects == "colon":
            self._expects = "value"
        elif "value" in expects and _SCALAR.fullmatch(c):
            self._scalar = c
        else:
            raise Malformed

    def _string(self, text: str, at: int) -> tuple[int, str]:
        c = text[at]
        if self._escape or c == "\\":
            self._escape += c
            return 1, self._take_escape()
        before, self._half = _UNKNOWN if self._half else "", ""
        if c == '"':
            self._expects = "colon"
            if not self._in_key:
                self._end_value()
            return 1, before + c
        run = _PLAIN.match(text, at)
        assert run is not None
        if run[0]:
            return len(run[0]), before + run[0]
        return 1, before + _ESCAPES.get(c, f"\\u{ord(c):04x}")

    def _take_escape(self) -> str:
        """What to pass on once an escape is whole, and with it perhaps the one before."""
        escape = self._escape
        if not _ESCAPE.fullmatch(escape):
            raise Malformed
        is_number = escape[1:2] == "u"
        if len(escape) < (6 if is_number else 2):
            return ""
        number = int(escape[2:], 16) if is_number else 0
        half, self._half, self._escape = self._half, "", ""
        if 0xDC00 <= number < 0xE000:
            return half + escape if half else _UNKNOWN
        if 0xD800 <= number < 0xDC00:
            escape, self._half = "", escape
        return (_UNKNOWN if half else "") + escape

    def _end_scalar(self) -> None:
        if self._scalar:
            if not _WHOLE_SCALAR.fullmatch(self._scalar):
                raise Malformed
            self._scalar = ""
            self._end_value()

    def _end_value(self) -> None:
        self.is_done = not self._open
        self._expects = "comma or end"
