"""GBNF, llama.cpp's grammar notation, read into rules. Knows nothing of what becomes of them.

root ::= "yes" | "no" reason{0,3}     # comment
reason ::= [^\\n]+ "."
"""

import re
from dataclasses import dataclass, field

from edgellm.constraints.rules import Call, Chain, Either, Node, OneOf, Repeat, Text, escaped, wrong
from edgellm.errors import RequestError

_MAX_DEPTH = 100  # of groups in groups
_MAX_SIGNS = 10  # of repetition after each other
_MAX_REPEAT = 100_000
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_HEX = {"x": 2, "u": 4, "U": 8}
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:\s|#[^\n]*)*")
_REPEAT = re.compile(r"\{[ ]*(\d*)[ ]*(,?)[ ]*(\d*)[ ]*\}")


def read_gbnf(grammar: str) -> dict[str, Node]:
    """The rules by name, in order. RequestError naming the line where something is wrong."""
    return _Reader(grammar).rules()


@dataclass
class _Reader:
    """Reads the text from `at` on."""

    text: str
    at: int = 0
    depth: int = 0
    _found: dict[str, Node] = field(default_factory=dict)
    _lines: int = 1  # counted up to _lines_to
    _lines_to: int = 0

    def rules(self) -> dict[str, Node]:
        self._skip(_SPACE_AND_LINES)
        while self.at < len(self.text):
            name = self._name("a rule's name")
            self._skip(_SPACE)
            if not self.text.startswith("::=", self.at):
                raise self._wrong("::=")
            if name in self._found:
                raise wrong(self._line(), f"rule {name!r} is defined twice")
            self.at += 3
            self._skip(_SPACE_AND_LINES)
            self._found[name] = self._either()
            if self.at < len(self.text) and self.text[self.at] not in "\r\n":
                raise self._wrong("the end of the rule")
            self._skip(_SPACE_AND_LINES)
        return self._found

    def _either(self) -> Node:
        choices = [self._chain()]
        while self._peek() == "|":
            self.at += 1
            self._skip(_SPACE_AND_LINES)
            choices.append(self._chain())
        return choices[0] if len(choices) == 1 else Either(tuple(choices))

    def _chain(self) -> Node:
        parts: list[Node] = []
        while (c := self._peek()) and c not in "|)\r\n":
            node = self._repeated(self._single(c))
            parts.append(node)
            self._skip(_SPACE_AND_LINES if self.depth else _SPACE)
        return parts[0] if len(parts) == 1 else Chain(tuple(parts))

    def _single(self, c: str) -> Node:
        if c == '"':
            return self._text()
        if c == "[":
            return self._one_of()
        if c == ".":
            self.at += 1
            return OneOf("(?s:.)")
        if c == "(":
            return self._group()
        if c in "<!":
            raise wrong(self._line(), "tokens in a grammar are not supported: write their text")
        line = self._line()
        return Call(self._name("text in quotes, [, (, . or a rule's name"), line)

    def _group(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise wrong(self._line(), f"groups are nested more than {_MAX_DEPTH} deep")
        self.at += 1
        self._skip(_SPACE_AND_LINES)
        node = self._either()
        if self._peek() != ")":
            raise self._wrong("a closing )")
        self.at += 1
        self.depth -= 1
        return node

    def _repeated(self, node: Node) -> Node:
        for _ in range(_MAX_SIGNS):
            self._skip(_SPACE)
            c = self._peek()
            if c in ("*", "+", "?"):
                self.at += 1
                node = Repeat(node, int(c == "+"), 1 if c == "?" else None)
            elif c == "{":
                node = self._counted(node)
            else:
                return node
        raise wrong(self._line(), "too many signs of repetition after each other")

    def _counted(self, node: Node) -> Node:
        found = _REPEAT.match(self.text, self.at)
        if not found or not (found[1] or found[3]):
            raise self._wrong("{m}, {m,}, {,n} or {m,n}")
        if max(len(found[1]), len(found[3])) > len(str(_MAX_REPEAT)):
            raise wrong(self._line(), f"at most {_MAX_REPEAT} repeats can be asked for")
        least = int(found[1] or 0)
        most = int(found[3]) if found[3] else None if found[2] else least
        if max(least, most or 0) > _MAX_REPEAT or (most is not None and most < least):
            raise wrong(self._line(), f"{found[0]} is no range of at most {_MAX_REPEAT} repeats")
        self.at = found.end()
        return Repeat(node, least, most)

    def _text(self) -> Node:
        self.at += 1
        characters = []
        while self._peek() != '"':
            characters.append(self._character())
        self.at += 1
        return Text("".join(characters))

    def _one_of(self) -> Node:
        start, self.at = self.at, self.at + 1
        is_negated = self._peek() == "^"
        self.at += is_negated
        ranges = []
        while self._peek() != "]":
            low = high = self._character()
            if self._peek() == "-" and self.text[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                high = self._character()
            if high < low:
                raise wrong(self._line(), f"{self.text[start : self.at]!r} has a range backwards")
            ranges.append(escaped(low) if low == high else f"{escaped(low)}-{escaped(high)}")
        self.at += 1
        if not ranges and not is_negated:
            raise wrong(self._line(), "[] matches no character")
        if not ranges:
            return OneOf("(?s:.)")
        return OneOf(f"[{'^' * is_negated}{''.join(ranges)}]")

    def _character(self) -> str:
        """One character of a text or of brackets, which must be closed on the same line."""
        c = self._peek()
        if c in ("", "\n"):
            raise self._wrong("the end of the text or of the brackets")
        self.at += 1
        if c != "\\":
            return c
        escape = self.text[self.at : self.at + 1]
        self.at += 1
        if escape in _HEX:
            digits = self.text[self.at : self.at + _HEX[escape]]
            self.at += _HEX[escape]
            if not re.fullmatch(f"[0-9A-Fa-f]{{{_HEX[escape]}}}", digits):
                raise wrong(self._line(), f"\\{escape}{digits} is no character")
            code = int(digits, 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise wrong(self._line(), f"\\{escape}{digits} is no character")
            return chr(code)
        if escape.isalnum() and escape not in _ESCAPES or not escape:
            raise wrong(self._line(), f"\\{escape} is not known: escape n, r, t, x, u or U")
        return _ESCAPES.get(escape, escape)

    def _name(self, expected: str) -> str:
        found = _NAME.match(self.text, self.at)
        if not found:
            raise self._wrong(expected)
        self.at = found.end()
        return found[0]

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        assert found
        self.at = found.end()

    def _line(self) -> int:
        self._lines += self.text.count("\n", self._lines_to, self.at)
        self._lines_to = self.at
        return self._lines

    def _wrong(self, expected: str) -> RequestError:
        found = self.text[self.at : self.at + 20].partition("\n")[0]
        what = f"found {found!r}" if found else "it ends"
        return wrong(self._line(), f"{what}, expected {expected}")
