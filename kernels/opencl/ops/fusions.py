"""Calls that follow one another and that one launch can do, with the same bits as one by one.

What a launch also makes records of (plan.py) is no matter of this file.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgellm.kernels.opencl.ops.attention import rope_and_store, store_and_attend
from edgellm.kernels.opencl.ops.elementwise import norm_and_add, norm_and_rope
from edgellm.kernels.opencl.ops.products import MOST_MATRICES, products, stored_type
from edgellm.kernels.opencl.plan import Plan
from edgellm.kernels.program import OpCall, Program, Value

Uses = Mapping[Value, int]  # how often each value is read, as an output of the program too


@dataclass(frozen=True)
class Fusion:
    """length: how many of the calls from the first on go together, less than 2 where none do."""

    length: Callable[[Sequence[OpCall], Uses], int]
    lower: Callable[[Plan, Sequence[OpCall]], None]


def groups(program: Program) -> Iterator[tuple[Sequence[OpCall], Fusion | None]]:
    """All calls of a program in order, those together that a fusion lowers."""
    uses = Counter(value for call in program.calls for value in call.inputs)
    uses.update(program.outputs.values())
    at = 0
    while at < len(program.calls):
        rest = program.calls[at : at + _LONGEST]
        found = ((fusion.length(rest, uses), fusion) for fusion in FUSIONS)
        length, fusion = next(((n, f) for n, f in found if n > 1), (1, None))
        yield rest[:length], fusion
        at += length


def _starts_with(calls: Sequence[OpCall], *ops: str) -> bool:
    return tuple(call.op for call in calls[: len(ops)]) == ops


def _is_only_read_by(call: OpCall, reader: OpCall, uses: Uses) -> bool:
    return call.output in reader.inputs and call.output is not None and uses[call.output] == 1


def _sum_of_product(calls: Sequence[OpCall], uses: Uses) -> int:
    """A product that is added to something else."""
    fits = _starts_with(calls, "matmul", "add") and _is_only_read_by(calls[0], calls[1], uses)
    return 2 * fits


def _add_product(plan: Plan, calls: Sequence[OpCall]) -> None:
    (residual,) = (value for value in calls[1].inputs if value != calls[0].output)
    products(plan, calls, residual)


def _sum_of_norm(calls: Sequence[OpCall], uses: Uses) -> int:
    """Whole rows, normed and added to something else than they were."""
    if not _starts_with(calls, "rms_norm", "add"):
        return 0
    norm, add = calls[:2]
    fits = (
        _is_only_read_by(norm, add, uses)
        and norm.attributes["heads"] == 1
        and norm.inputs[0] not in add.inputs
    )
    return 2 * fits


def _rotated_norm(calls: Sequence[OpCall], uses: Uses) -> int:
    """Heads, normed and rotated."""
    if not _starts_with(calls, "rms_norm", "rope"):
        return 0
    norm, rope = calls[:2]
    fits = _is_only_read_by(norm, rope, uses) and rope.inputs[0] == norm.output
    return 2 * (fits and norm.attributes["heads"] == rope.attributes["heads"])


def _same_rows(calls: Sequence[OpCall], uses: Uses) -> int:
    """Products of one value with matrices of one type."""
    first, count = calls[0], 0
    if first.op != "matmul":
        return 0
    for call in calls[:MOST_MATRICES]:
        if call.op != "matmul" or call.inputs != first.inputs:
            break
        if stored_type(call.weights[0]) != stored_type(first.weights[0]):
            break
        count += 1
    return count


def _rotated_and_stored(calls: Sequence[OpCall], uses: Uses) -> int:
    """Rotations of queries and keys, and those keys into the cache."""
    if not _starts_with(calls, "rope", "rope", "store_kv"):
        return 0
    of_q, of_k, store = calls[:3]
    fits = (
        _is_only_read_by(of_k, store, uses)
        and store.inputs[0] == of_k.output
        and of_q.inputs[1] == of_k.inputs[1]
        and of_q.attributes["layout"] == of_k.attributes["layout"]
    )
    return 3 * fits


def _stored_and_read(calls: Sequence[OpCall], uses: Uses) -> int:
    """The same, or storing alone, and attention over what is stored."""
    length = max(1, _rotated_and_stored(calls, uses)) + 1
    if not _starts_with(calls[length - 2 :], "store_kv", "attention"):
        return 0
    store, attention = calls[length - 2 : length]
    is_rotated = length == 2 or attention.inputs[0] == calls[0].output
    return length * (is_rotated and store.attributes["layer"] == attention.attributes["layer"])


FUSIONS = (
    Fusion(_sum_of_product, _add_product),
    Fusion(_same_rows, products),
    Fusion(_sum_of_norm, norm_and_add),
    Fusion(_rotated_norm, norm_and_rope),
    Fusion(_stored_and_read, store_and_attend),
    Fusion(_rotated_and_stored, rope_and_store),
)
_LONGEST = 4
