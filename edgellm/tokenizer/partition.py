"""Finds special tokens written out in a text. Knows nothing of how the rest is encoded.

The rule is llama.cpp's: the longest token first (in bytes), each at its leftmost places, never
over a place that a longer one has taken.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

_TAKEN = b"\xff"  # in no UTF-8 text, so no token is found over it
_SPACE = b" \t\n\v\f\r"


@dataclass(frozen=True)
class Special:
    """A token to look for. strip_left, strip_right: the white space beside it goes with it."""

    token_id: int
    text: bytes
    strip_left: bool = False
    strip_right: bool = False


@dataclass(frozen=True)
class _Node:
    """Specials that share their first bytes: those no longer than that, and the others."""

    prefix: bytes
    whole: tuple[Special, ...]
    longer: tuple["_Node", ...]


class Partition:
    """Cuts texts at the specials given."""

    def __init__(self, specials: Sequence[Special]) -> None:
        self._specials = sorted(specials, key=lambda special: special.text)
        self._roots: tuple[_Node, ...] | None = None

    def split(self, text: str) -> list[str | int]:
        """The text as plain parts (never empty) and token ids, in order."""
        data = text.encode()
        found = list(self._present(data))
        if not found:
            return [text] if text else []
        found.sort(key=lambda special: (-len(special.text), special.token_id))
        taken = bytearray(data)
        places: list[tuple[int, int, int]] = []  # start, end, token id
        for special in found:
            at = taken.find(special.text)
            while at >= 0:
                start, end = _widened(special, taken, at)
                taken[start:end] = _TAKEN * (end - start)
                places.append((start, end, special.token_id))
                at = taken.find(special.text, end)
        return list(_parts(data, sorted(places)))

    def _present(self, data: bytes) -> Iterator[Special]:
        """The specials that occur somewhere. A walk down their common beginnings is what makes
        six thousand of them cheap to look for."""
        if self._roots is None:
            self._roots = _tree(self._specials, 1)
        nodes = list(self._roots)
        while nodes:
            node = nodes.pop()
            if node.prefix in data:
                yield from node.whole
                nodes += node.longer


def _tree(specials: Iterable[Special], width: int) -> tuple[_Node, ...]:
    """Sorted specials grouped by their first `width` bytes, below that by twice as many."""
    nodes = []
    for prefix, group in groupby(specials, key=lambda special: special.text[:width]):
        members = list(group)
        whole = tuple(special for special in members if len(special.text) <= width)
        longer = _tree((s for s in members if len(s.text) > width), 2 * width)
        nodes.append(_Node(prefix, whole, longer))
    return tuple(nodes)


def _widened(special: Special, taken: bytearray, at: int) -> tuple[int, int]:
    start, end = at, at + len(special.text)
    if special.strip_left:
        while start > 0 and taken[start - 1] in _SPACE:
            start -= 1
    if special.strip_right:
        while end < len(taken) and taken[end] in _SPACE:
            end += 1
    return start, end


def _parts(data: bytes, places: Sequence[tuple[int, int, int]]) -> Iterator[str | int]:
    done = 0
    for start, end, token_id in places:
        if done < start:
            yield data[done:start].decode()
        yield token_id
        done = end
    if done < len(data):
        yield data[done:].decode()
