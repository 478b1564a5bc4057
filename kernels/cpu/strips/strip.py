"""A format's reader: how its weights become lanes, straight from the file.

A strip is 8 or 16 weight rows. A reader yields, for one block of each row, the groups of weights
that share a scale: (index, vectors), where vector j holds columns 4j to 4j + 3 of the group as
stored integers (see Domain). Groups may come in any order; `scale` and `minimum` give their
factors as float32 lanes, with the products of the reference `dequantize`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from edgellm.kernels.cpu.domain import Domain
from edgellm.kernels.cpu.emit import Emit

Group = tuple[int, list[Any]]


@dataclass(frozen=True)
class Block:
    """One block of each row of a strip: its groups, and the factors of group i."""

    groups: Iterator[Group]
    scale: Callable[[int], Any]
    minimum: Callable[[int], Any] | None = None


@dataclass(frozen=True)
class Strip:
    """`read(emit, rows)`: addresses of the same block in each row.

    is_bytewise: whether groups of 16 bytes of a row and more are treated byte by byte, so that rows
    may also come four to a vector; see four_rows.py.
    """

    domain: Domain
    read: Callable[[Emit, list[Any]], Block]
    is_bytewise: bool = False


def constant(value: Any) -> Callable[[int], Any]:
    return lambda index: value


def nibbles(emit: Emit, columns: list[Any]) -> list[Any]:
    """4 vectors of two nibbles a byte -> 8 vectors: the low ones, then the high ones."""
    return [emit.low_nibbles(c) for c in columns] + [emit.high_nibbles(c) for c in columns]
