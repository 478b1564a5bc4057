"""What becomes of single tensors between a checkpoint and GGUF: one function for each change.

A move takes a tensor's name, the tensor and the settings and gives tensors with their names: those
of checkpoints, which are then looked up, or GGUF's. Knows no families.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from edgellm.convert.settings import Settings
from edgellm.convert.weight import (
    Indices,
    Weight,
    halves,
    joined,
    mapped,
    part,
    parts,
    reordered,
    reshaped,
    squeezed,
    ternary,
    transposed,
)
from edgellm.errors import GGUFError

Named = tuple[str, Weight]
Move = Callable[[str, Weight, Settings], Iterable[Named]]

_LAYER = re.compile(r"(?:layers?|h|blocks|transformer_encoder)\.(\d+)\.")


def unchanged(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """As it is."""
    yield name, weight


def layer_of(name: str) -> str:
    """`blk.N` of a checkpoint's name."""
    found = _LAYER.search(name)
    if found is None:
        raise GGUFError(f"the tensor {name!r} is of no layer, which was expected")
    return f"blk.{found[1]}"


def rotated_pairs(rows: int, heads: int, rotary_dim: int | None = None) -> Indices:
    """The order of rows in which the two that are rotated together are neighbours.

    Most checkpoints keep the first and second halves of a head apart; GGUF's llama does not.
    rotary_dim: how many rows of a head, from its first, are rotated, if not all.
    """
    order = np.arange(rows).reshape(heads, -1)
    dim = rotary_dim or order.shape[1]
    pairs = order[:, :dim].reshape(heads, 2, -1).swapaxes(1, 2).reshape(heads, dim)
    return np.concatenate([pairs, order[:, dim:]], axis=1).reshape(-1)


def paired_queries(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Rows of queries, in pairs."""
    yield name, _paired(weight, s.heads, s)


def paired_keys(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Rows of keys, in pairs."""
    yield name, _paired(weight, s.kv_heads, s)


def split_queries(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Rows of queries that are in pairs, as halves of heads."""
    yield name, _split(weight, s.heads, s)


def split_keys(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Rows of keys that are in pairs, as halves of heads."""
    yield name, _split(weight, s.kv_heads, s)


def _split(weight: Weight, heads: int, s: Settings) -> Weight:
    _check_heads(weight, heads, s)
    pairs = rotated_pairs(weight.rows, heads, s.rotary_dim)
    return reordered(weight, np.argsort(pairs), weight.shape)


def _paired(weight: Weight, heads: int, s: Settings) -> Weight:
    _check_heads(weight, heads, s)
    return reordered(weight, rotated_pairs(weight.rows, heads, s.rotary_dim), weight.shape)


def _check_heads(weight: Weight, heads: int, s: Settings) -> None:
    if weight.rows != heads * s.head_dim:
        raise weight.wrong(f"expected {heads * s.head_dim} rows: {heads} heads of {s.head_dim}")
    if s.rotary_dim % 2 or not 0 < s.rotary_dim <= s.head_dim:
        raise weight.wrong(f"cannot have {s.rotary_dim} rows of a head in pairs")


def one_more(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Norms that are stored less one."""
    yield from plus(1)(name, weight, s)


def turned(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Matrices that are stored by columns (GPT-2's Conv1D)."""
    yield name, transposed(weight)


def without_ones(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Such as convolutions with one channel of input: (channels, 1, kernel)."""
    yield name, squeezed(weight)


def decays(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Decays that are stored as logarithms of what they take off."""
    yield name, mapped(weight, lambda values: -np.exp(values))


def as_column(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """One number for each head, as Mamba-2 has it."""
    yield name, reshaped(weight, (weight.rows * weight.columns, 1))


def times(factor: float) -> Move:
    """All numbers multiplied."""
    scale = np.float32(factor)
    return lambda name, weight, s: [(name, mapped(weight, lambda values: values * scale))]


def plus(term: float) -> Move:
    """All numbers with a term added."""
    added = np.float32(term)
    return lambda name, weight, s: [(name, mapped(weight, lambda values: values + added))]


def rounded_to_three(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Matrices that a model rounds to -1, 0 and 1 times a scale when it runs (BitNet)."""
    yield name, ternary(weight)


def zero_left_out(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Biases that the model has no place for, as long as they are zero."""
    if weight.floats(np.arange(weight.rows)).any():
        raise weight.wrong("is not zero, and the model has no place for it")
    yield from ()


def as_named(new: str, move: Move | None = None) -> Move:
    """Under another name: GGUF's, in which `{layer}` is `blk.N`; after another move."""

    def renamed(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
        target = new.format(layer=layer_of(name)) if "{layer}" in new else new
        for _, one in (move or unchanged)(name, weight, s):
            yield target, one

    return renamed


def then(first: Move, second: Move) -> Move:
    """One move after another."""

    def both(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
        for new, one in first(name, weight, s):
            yield from second(new, one, s)

    return both


def gate_and_up(gate: str, up: str, interleaved: bool = False) -> Move:
    """Two matrices in one, for each expert or once: gates first, or by turns."""

    def split(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
        if name.endswith("bias") and len(weight.shape) == 2:  # of each expert
            first, second = halves(reshaped(weight, (*weight.shape, 1)), interleaved)
            first, second = (reshaped(one, one.shape[:2]) for one in (first, second))
        else:
            first, second = halves(weight, interleaved)
        layer = layer_of(name)
        yield gate.format(layer=layer), first
        yield up.format(layer=layer), second

    return split


def turned_gate_and_up(gate: str, up: str, interleaved: bool = False) -> Move:
    """The same, stored by columns."""
    split = gate_and_up(gate, up, interleaved)
    return lambda name, weight, s: split(name, transposed(weight), s)


def by_head(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Queries, keys and values in turn for each head (Bloom, GPT-NeoX): all queries first."""
    order = np.arange(weight.rows).reshape(s.heads, 3, -1).swapaxes(0, 1).reshape(-1)
    yield name, reordered(weight, order, weight.shape)


def by_group(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """For each head of keys its queries, its keys and its values (Falcon): all queries first."""
    yield name, joined(_of_groups(weight, s))


def by_group_apart(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """The same in three matrices, queries and keys in pairs (InternLM 2)."""
    yield from _apart(name, _of_groups(weight, s), s)


def _of_groups(weight: Weight, s: Settings) -> list[Weight]:
    groups, dim = s.kv_heads, s.head_dim
    if weight.rows != (s.heads + 2 * groups) * dim:
        raise weight.wrong(f"expected {s.heads} + 2 x {groups} heads of {dim} rows")
    rows = np.arange(weight.rows).reshape(groups, -1, dim)
    found = []
    for taken in (rows[:, :-2], rows[:, -2], rows[:, -1]):
        order = taken.reshape(-1)
        found.append(reordered(weight, order, (len(order), *weight.shape[1:])))
    return found


def latent_keys_and_values(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """For each head what makes its keys from the latent, which is turned, and its values.

    Source: DeepSeek-AI 2024 (DeepSeek-V2): keys are absorbed into queries.
    """
    plain, value = s.integer("qk_nope_head_dim"), s.integer("v_head_dim")
    rank, layer = weight.shape[-1], layer_of(name)
    if weight.rows != s.heads * (plain + value):
        raise weight.wrong(f"expected {s.heads} heads of {plain} + {value} rows")
    rows = np.arange(weight.rows).reshape(s.heads, -1)
    keys = reordered(weight, rows[:, :plain].reshape(-1), (s.heads, plain, rank))
    values = reordered(weight, rows[:, plain:].reshape(-1), (s.heads, value, rank))
    yield f"{layer}.attn_k_b.weight", transposed(keys)
    yield f"{layer}.attn_v_b.weight", values


def in_turn(name: str, weight: Weight, s: Settings) -> Iterator[Named]:
    """Queries, keys and values one after another in one matrix: apart, and in pairs (Baichuan)."""
    sizes = [s.heads * s.head_dim, s.kv_heads * s.head_dim, s.kv_heads * s.head_dim]
    yield from _apart(name, parts(weight, sizes), s)


def _apart(name: str, matrices: Sequence[Weight], s: Settings) -> Iterator[Named]:
    """Queries, keys and values under names of their own, the first two in pairs."""
    (q, k, v), layer, suffix = matrices, layer_of(name), name.rsplit(".", 1)[1]
    yield f"{layer}.attn_q.{suffix}", _paired(q, s.heads, s)
    yield f"{layer}.attn_k.{suffix}", _paired(k, s.kv_heads, s)
    yield f"{layer}.attn_v.{suffix}", v


def from_row(first: int) -> Move:
    """Without the first rows, which no token has a position of."""
    return lambda name, weight, s: [(name, part(weight, first, weight.shape[0] - first))]
