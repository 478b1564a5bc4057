"""GBNF, llama.cpp's grammar notation, made a Lark grammar. Knows nothing of tokens.

    root ::= "yes" | "no" reason{0,3}     # comment
    reason ::= [^\\n]+ "."

The grammar is read into nodes and written out as rules r0, r1, ... of which r0 is the root.
A grammar without recursion becomes one terminal, that is one regular expression. In one with
recursion every terminal is a single character: a lexer takes the longest match, so that longer
terminals could not stand beside each other as freely as they can in GBNF.
"""

import re
from dataclasses import dataclass, field

from edgellm.errors import RequestError

_MAX_DEPTH = 100  # of groups in groups
_MAX_REPEAT = 100_000
_MAX_ROUNDS = 100
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_HEX = {"x": 2, "u": 4, "U": 8}
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:\s|#[^\n]*)*")
_REPEAT = re.compile(r"\{[ ]*(\d*)[ ]*(,?)[ ]*(\d*)[ ]*\}")


@dataclass(frozen=True)
class Text:
    """These characters."""

    text: str


@dataclass(frozen=True)
class OneOf:
    """One character that the regular expression `regex` matches."""

    regex: str


@dataclass(frozen=True)
class Call:
    """Another rule. line: where it is named."""

    name: str
    line: int


@dataclass(frozen=True)
class Chain:
    """One after the other; nothing where there are none."""

    parts: tuple["Node", ...]


@dataclass(frozen=True)
class Either:
    """One of them."""

    choices: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    """The node `least` to `most` times; None is without end."""

    node: "Node"
    least: int
    most: int | None


Node = Text | OneOf | Call | Chain | Either | Repeat


def gbnf_to_lark(grammar: str) -> str:
    """The Lark grammar. RequestError naming the line where it is wrong or cannot be converted."""
    rules = _Reader(grammar).rules()
    names = {name: f"r{number}" for number, name in enumerate(rules)}
    for node in rules.values():
        for call in _calls(node):
            if call.name not in names:
                raise _error(call.line, f"rule {call.name!r} is not defined")
    if "root" not in rules:
        raise RequestError("grammar: no rule is named root", "grammar")
    for name in rules.keys() - _ending(rules):
        raise RequestError(f"grammar: rule {name!r} has no end: it always calls itself", "grammar")
    is_regular = not _is_recursive(rules)
    if is_regular:
        names = {name: short.upper() for name, short in names.items()}
    lines = [f"start: {names['root']}"]
    lines += [f"{names[name]}: {_lark(node, names, is_regular)}" for name, node in rules.items()]
    return "\n".join(lines)


def _lark(node: Node, names: dict[str, str], is_regular: bool) -> str:
    def written(inner: Node) -> str:
        return _lark(inner, names, is_regular)

    match node:
        case Text(text):
            parts = [_escaped(c) for c in text]
            if not parts:
                return '""'
            return f"/{''.join(parts)}/" if is_regular else f"({' '.join(f'/{p}/' for p in parts)})"
        case OneOf(regex):
            return f"/{regex}/"
        case Call(name):
            return names[name]
        case Chain(parts=nodes):
            return f"({' '.join(map(written, nodes))})" if nodes else '""'
        case Either(choices):
            return f"({' | '.join(map(written, choices))})"
        case Repeat(inner, least, most):
            return f"({written(inner)}){{{least},{'' if most is None else most}}}"


@dataclass
class _Reader:
    """Reads the text from `at` on."""

    text: str
    at: int = 0
    depth: int = 0
    _found: dict[str, Node] = field(default_factory=dict)

    def rules(self) -> dict[str, Node]:
        self._skip(_SPACE_AND_LINES)
        while self.at < len(self.text):
            name = self._name("a rule's name")
            self._skip(_SPACE)
            if not self.text.startswith("::=", self.at):
                raise self._wrong("::=")
            if name in self._found:
                raise _error(self._line(), f"rule {name!r} is defined twice")
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
            raise _error(self._line(), "tokens in a grammar are not supported: write their text")
        line = self._line()
        return Call(self._name("text in quotes, [, (, . or a rule's name"), line)

    def _group(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _error(self._line(), f"groups are nested more than {_MAX_DEPTH} deep")
        self.at += 1
        self._skip(_SPACE_AND_LINES)
        node = self._either()
        if self._peek() != ")":
            raise self._wrong("a closing )")
        self.at += 1
        self.depth -= 1
        return node

    def _repeated(self, node: Node) -> Node:
        while True:
            self._skip(_SPACE)
            c = self._peek()
            if c in ("*", "+", "?"):
                self.at += 1
                node = Repeat(node, int(c == "+"), 1 if c == "?" else None)
            elif c == "{":
                node = self._counted(node)
            else:
                return node

    def _counted(self, node: Node) -> Node:
        found = _REPEAT.match(self.text, self.at)
        if not found or not (found[1] or found[3]):
            raise self._wrong("{m}, {m,}, {,n} or {m,n}")
        if max(len(found[1]), len(found[3])) > len(str(_MAX_REPEAT)):
            raise _error(self._line(), f"at most {_MAX_REPEAT} repeats can be asked for")
        least = int(found[1] or 0)
        most = int(found[3]) if found[3] else None if found[2] else least
        if max(least, most or 0) > _MAX_REPEAT or (most is not None and most < least):
            raise _error(self._line(), f"{found[0]} is no range of at most {_MAX_REPEAT} repeats")
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
            if self.text[self.at : self.at + 1] == "-" and self.text[
                self.at + 1 : self.at + 2
            ] not in (
                "]",
                "",
            ):
                self.at += 1
                high = self._character()
            if high < low:
                raise _error(self._line(), f"{self.text[start : self.at]!r} has a range backwards")
            ranges.append(_escaped(low) if low == high else f"{_escaped(low)}-{_escaped(high)}")
        self.at += 1
        if not ranges and not is_negated:
            raise _error(self._line(), "[] matches no character")
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
                raise _error(self._line(), f"\\{escape}{digits} is no character")
            code = int(digits, 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise _error(self._line(), f"\\{escape}{digits} is no character")
            return chr(code)
        if escape.isalnum() and escape not in _ESCAPES or not escape:
            raise _error(self._line(), f"\\{escape} is not known: escape n, r, t, x, u or U")
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
        return self.text.count("\n", 0, self.at) + 1

    def _wrong(self, expected: str) -> RequestError:
        found = self.text[self.at : self.at + 20].partition("\n")[0]
        what = f"found {found!r}" if found else "it ends"
        return _error(self._line(), f"{what}, expected {expected}")


def _calls(node: Node) -> list[Call]:
    """Every call in a node."""
    calls, nodes = [], [node]
    while nodes:
        match nodes.pop():
            case Call() as call:
                calls.append(call)
            case Chain(parts=inner) | Either(choices=inner):
                nodes += inner
            case Repeat(node=one):
                nodes.append(one)
    return calls


def _ending(rules: dict[str, Node]) -> set[str]:
    """The rules that match some text. Each round goes down and up, so that few are needed."""
    ending: set[str] = set()
    order = [*rules, *reversed(rules)]
    for _ in range(_MAX_ROUNDS):
        before = len(ending)
        for name in order:
            if name not in ending and _ends(rules[name], ending):
                ending.add(name)
        if len(ending) == before:
            return ending
    raise RequestError("grammar: its rules are too entangled", "grammar")


def _ends(node: Node, ending: set[str]) -> bool:
    match node:
        case Call(name):
            return name in ending
        case Chain(parts):
            return all(_ends(part, ending) for part in parts)
        case Either(choices):
            return any(_ends(choice, ending) for choice in choices)
        case Repeat(inner, least):
            return least == 0 or _ends(inner, ending)
    return True


def _is_recursive(rules: dict[str, Node]) -> bool:
    """Whether a rule comes back to itself: rules that call only settled ones are taken away until
    none is left, or none can be."""
    waiting = {name: {call.name for call in _calls(node)} for name, node in rules.items()}
    callers: dict[str, list[str]] = {name: [] for name in rules}
    for name, called in waiting.items():
        for other in called:
            callers[other].append(name)
    settled = [name for name, called in waiting.items() if not called]
    count = 0
    while settled:
        count += 1
        done = settled.pop()
        for caller in callers[done]:
            waiting[caller].discard(done)
            if not waiting[caller]:
                settled.append(caller)
    return count < len(rules)


def _escaped(character: str) -> str:
    """For a regular expression between slashes."""
    is_plain = character.isascii() and character.isalnum()
    return character if is_plain else f"\\u{{{ord(character):X}}}"


def _error(line: int, what: str) -> RequestError:
    return RequestError(f"grammar: line {line}: {what}", "grammar")
