"""Rules written out as a Lark grammar for llguidance. Knows nothing of how they were read.

The rules become r0, r1, ... of which `root` is where a text starts. A grammar without recursion
becomes one terminal, that is one regular expression. In one with recursion every terminal is a
single character: a lexer takes the longest match, so that longer terminals could not stand beside
each other as freely as rules can.
"""

from edgellm.constraints.rules import Call, Chain, Either, Node, OneOf, Repeat, Text, escaped, wrong
from edgellm.errors import RequestError

_MAX_ROUNDS = 100


def write_lark(rules: dict[str, Node]) -> str:
    """The Lark grammar. RequestError when a rule is missing or has no end."""
    names = {name: f"r{number}" for number, name in enumerate(rules)}
    for node in rules.values():
        for call in _calls(node):
            if call.name not in names:
                raise wrong(call.line, f"rule {call.name!r} is not defined")
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
            parts = [escaped(c) for c in text]
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
