"""How large the result of an operation will be, before it is made. Knows only plain values.

Every function returns an upper bound in characters (or items, or decimal digits); the caller holds
it against its limit. FILTERS and METHODS name the jinja2 filters and the methods of str, bytes and
int whose result can be much larger than their arguments; each bound takes their arguments.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sized
from typing import Any

from jinja2.utils import Namespace

_NUMBER = re.compile(r"\d+")
_PERCENT = re.compile(r"%(?:\([^)]*\))?([-#0 +\d.*]*)")  # width and precision of a % field
_BRACE = re.compile(r"\{[^{}:]*(:?[^{}]*)")  # format spec of a {} field
_NESTED = re.compile(r"\{[^{}]*\{[^{]")  # a field within a format spec
_HUGE = 10**9
_ITEM = 8  # what one item of a container weighs: its pointer, or its quotes, comma and space
_ARITHMETIC = 1000  # what one digit of a computed number weighs: long ones cost time, not memory


def weigh(value: Any, limit: int) -> int:
    """About how many characters `value` has as text; counting stops beyond `limit`.

    Shared parts count each time they appear, as they would in the text.
    """
    total, stack = 0, [value]
    while stack and total <= limit:
        item = stack.pop()
        if isinstance(item, (str, bytes)):
            total += len(item)
        elif isinstance(item, Mapping):
            total += 2 * _ITEM * len(item) + _ITEM
            if total <= limit:
                stack += item.keys()
                stack += item.values()
        elif isinstance(item, range):
            total += _ITEM * len(item)
        elif isinstance(item, Collection):
            total += _ITEM * len(item) + _ITEM
            if total <= limit:
                stack += item
        elif isinstance(item, Namespace):
            total += _ITEM
            stack.append(object.__getattribute__(item, "_Namespace__attrs"))
        else:
            total += _ITEM
    return total


def product(left: Any, right: Any) -> int:
    """Size of `left * right`: repeated text or list, or digits of a number."""
    for value, times in ((left, right), (right, left)):
        if isinstance(times, int) and isinstance(value, Sized):
            return len(value) * abs(times)
    if isinstance(left, int) and isinstance(right, int):
        return _ARITHMETIC * (_digits(left) + _digits(right))
    return 0


def power(left: Any, right: Any) -> int:
    """What the digits of `left ** right` weigh."""
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        return int(_ARITHMETIC * _digits(left) * right)
    return 0


def formatted(pattern: str | bytes, values: Any, limit: int) -> int:
    """Size of `pattern % values` or `pattern.format(...)`: widths, and all values in every field.

    A width that is itself a value is beyond any limit: no chat template needs one.
    """
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    specs = _PERCENT.findall(text) + _BRACE.findall(text)
    if any("*" in spec for spec in specs) or _NESTED.search(text):
        return limit + 1
    digits = _NUMBER.findall(" ".join(specs))
    widths = sum(int(run) if len(run) < 10 else limit + 1 for run in digits)
    return len(text) + widths + len(specs) * weigh(values, limit)


def _digits(number: int) -> int:
    return number.bit_length() // 3 + 1


def _padded(text: Any, width: int = 80, *_: Any) -> int:
    return len(str(text)) + max(int(width), 0)


def _lines(text: Any, width: int | str = 4, *_: Any, **__: Any) -> int:
    size = len(width) if isinstance(width, str) else max(int(width), 0)
    return len(str(text)) + size * (len(str(text).splitlines()) + 1)


def _tabs(text: str | bytes, tabsize: int = 8) -> int:
    tabs = text.count("\t") if isinstance(text, str) else text.count(b"\t")
    return len(text) + tabs * max(tabsize, 0)


def _replaced(text: Any, old: Any, new: Any, *_: Any) -> int:
    if isinstance(text, bytes):
        return len(text) + text.count(old) * len(new)
    return len(str(text)) + str(text).count(str(old)) * len(str(new))


def _translated(text: Any, table: Any, *_: Any) -> int:
    values = table.values() if isinstance(table, Mapping) else ()
    longest = max((len(value) for value in values if isinstance(value, str)), default=1)
    return len(text) * max(longest, 1)


def _separated(separator: Any, values: Any) -> int:
    if not isinstance(values, Collection):
        return 0
    return len(values) * len(separator)


def _joined(values: Any, d: Any = "", attribute: Any = None) -> int:
    return _separated(str(d), values)


def _filled(values: Any, count: int, *_: Any, **__: Any) -> int:
    return max(int(count), 0)


def _wrapped(text: Any, *args: Any, wrapstring: str | None = None, **_: Any) -> int:
    mark = args[2] if len(args) > 2 else wrapstring
    return len(str(text)) * (1 + len(mark or ""))


def _bytes(number: Any, length: int = 1, *_: Any, **__: Any) -> int:
    return length


FILTERS: dict[str, Callable[..., int]] = {
    "batch": _filled,
    "center": _padded,
    "format": lambda pattern, *args, **kwargs: formatted(str(pattern), (args, kwargs), _HUGE),
    "indent": _lines,
    "join": _joined,
    "replace": _replaced,
    "slice": _filled,
    "wordwrap": _wrapped,
}

METHODS: dict[str, Callable[..., int]] = {
    "center": _padded,
    "expandtabs": _tabs,
    "join": _separated,
    "ljust": _padded,
    "replace": _replaced,
    "rjust": _padded,
    "to_bytes": _bytes,
    "translate": _translated,
    "zfill": _padded,
}
