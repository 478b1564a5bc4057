"""JSON values with an odd one in one place, as nobody would write them. Holds no tests."""

import copy
from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    *(None, -1, 0, 1 << 62, 1 << 70, 1e308, 0.5, -0.5, "x", "", "\ud800", True),
    *([], [None], ["a"], ["a", "b"], [[]], [{}], {}, {"a": 1}, {"type": {}}, {"type": []}),
)
Place = tuple[str | int, ...]  # the keys and numbers that lead to a value


def places(value: Any, before: Place = ()) -> Iterator[Place]:
    """All places within a value."""
    if not isinstance(value, dict | list):
        return
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*before, key)
        yield from places(one, (*before, key))


def changed(value: Any, place: Place, odd: Any) -> Any:
    """A copy with `odd` in that place."""
    whole = copy.deepcopy(value)
    part = whole
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = odd
    return whole


def each_changed(value: Any, share: int) -> Iterator[tuple[Place, Any, Any]]:
    """Place, odd value, and the copy with it there, for each place and one in `share` of ODD."""
    for turn, place in enumerate(places(value)):
        for odd in ODD[turn % share :: share]:
            yield place, odd, changed(value, place, odd)
