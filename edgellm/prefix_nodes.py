"""The nodes of a prefix tree, and what can be told from one alone. Plain Python."""

from collections.abc import Iterator, Sequence as Seq
from dataclasses import dataclass, field

Scales = tuple[float, ...]


@dataclass(eq=False)
class Node:
    """One block of tokens and where it is stored.

    blocks: per KV group; None where a sliding window does not have it (any more). state: the slot
    of the recurrent state after the last token. cursors: sequences that are to extend this node.
    """

    tokens: tuple[int, ...]
    parent: "Node | None"
    blocks: list[int | None]
    state: int | None = None
    cursors: int = 0
    children: dict[tuple[int, ...], "Node"] = field(default_factory=dict)  # whole blocks
    partials: dict[tuple[int, ...], "Node"] = field(default_factory=dict)  # have no children


@dataclass(frozen=True)
class Hit:
    """The first `num_tokens` tokens are stored along `path`, the last of it perhaps in part."""

    num_tokens: int
    path: list[Node]


def below(node: Node) -> Iterator[Node]:
    """All nodes below this one."""
    left = [*node.children.values(), *node.partials.values()]
    while left:
        node = left.pop()
        yield node
        left += node.children.values()
        left += node.partials.values()


def same_scales(a: Scales, b: Scales) -> bool:
    """Whether sequences with these scales of adapters compute the same."""
    return normal_scales(a) == normal_scales(b)


def normal_scales(scales: Scales) -> Scales:
    """Without the zeros at the end, which change nothing."""
    while scales and not scales[-1]:
        scales = scales[:-1]
    return scales


def is_empty(node: Node) -> bool:
    """Whether a node stores nothing, leads nowhere and nobody extends it."""
    used = node.children or node.partials or node.cursors or node.state is not None
    return not used and all(block is None for block in node.blocks)


def begins_with(ids: Seq[int], node: Node) -> bool:
    """Whether `ids` begins with the node's tokens."""
    return tuple(ids[: len(node.tokens)]) == node.tokens


def common_length(a: Seq[int], b: Seq[int]) -> int:
    """How many of their first elements are equal."""
    shortest = min(len(a), len(b))
    return next((i for i in range(shortest) if a[i] != b[i]), shortest)
