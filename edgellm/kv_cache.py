"""Allocates the storage of keys, values and states. Knows nothing of who owns a block or slot.

Memory comes zeroed from the system, so a page costs nothing until a token is written to it.
"""

from dataclasses import dataclass

import numpy as np

from edgellm.errors import BackendError
from edgellm.kernels.kv import BLOCK_SIZE, SCALED, CacheType, KVArray, KVStorage
from edgellm.kernels.program import Program
from edgellm.kernels.small_pages import zeros
from edgellm.kernels.split import cached_layers, states_used


@dataclass(frozen=True)
class KVTypes:
    """What keys and values are stored as."""

    keys: CacheType
    values: CacheType


def allocate(
    program: Program, num_blocks: tuple[int, ...], types: KVTypes, num_slots: int = 1
) -> KVStorage:
    """Arrays for `num_blocks[g]` blocks in every layer of KV group g, and `num_slots` states.

    BackendError when the system does not have the memory, or a head does not fit its type.
    """
    check_widths(program, types)
    if len(num_blocks) != len(program.kv_groups):
        raise ValueError(f"{len(num_blocks)} block counts for {len(program.kv_groups)} groups")

    def layers(kind: CacheType, widths: list[int]) -> tuple[KVArray, ...]:
        return tuple(
            zeros(
                (num_blocks[kv.group], kv.num_kv_heads, BLOCK_SIZE, kind.columns(width)), kind.dtype
            )
            for kv, width in zip(program.kv_layers, widths, strict=True)
        )

    try:
        states = tuple(
            zeros((num_slots, *state.stored_shape), np.float32) for state in program.state_layers
        )
        return KVStorage(
            layers(types.keys, [kv.head_dim for kv in program.kv_layers]),
            layers(types.values, [kv.value_dim for kv in program.kv_layers]),
            states,
        )
    except MemoryError:
        size = sum(
            bytes_per_token(program, types, group) * blocks * BLOCK_SIZE
            for group, blocks in enumerate(num_blocks)
        )
        size += num_slots * bytes_per_slot(program)
        raise BackendError(
            f"no memory for {size / 2**20:.0f} MiB of keys and values: "
            "load the model with a smaller context"
        ) from None


def part_of(program: Program, storage: KVStorage) -> KVStorage:
    """The storage without room for the layers that the program's calls do not use."""
    layers, states = cached_layers(program), states_used(program)

    def kept(arrays: tuple[KVArray, ...], used: frozenset[int]) -> tuple[KVArray, ...]:
        return tuple(a if i in used else a[..., :0] for i, a in enumerate(arrays))

    return KVStorage(
        kept(storage.keys, layers), kept(storage.values, layers), kept(storage.states, states)
    )


def check_widths(program: Program, types: KVTypes) -> None:
    """BackendError when a head does not fit its type."""
    for kv in program.kv_layers:
        for kind, width in ((types.keys, kv.head_dim), (types.values, kv.value_dim)):
            if kind.is_quantized and width % SCALED:
                raise BackendError(
                    f"heads of {width} numbers cannot be stored as {kind.name}, which takes "
                    f"multiples of {SCALED}: use a kv_cache_type of f16"
                )


class HostStore:
    """Blocks in this process's memory: copied here and there, whatever lies inside them.

    The blocks of KV group None are slots of recurrent states.
    """

    def __init__(self, program: Program, storage: KVStorage) -> None:
        self._arrays: dict[int | None, list[KVArray]] = {
            group: [
                arrays[layer]
                for layer, kv in enumerate(program.kv_layers)
                if kv.group == group
                for arrays in (storage.keys, storage.values)
            ]
            for group in range(len(program.kv_groups))
        }
        self._arrays[None] = list(storage.states)

    def copy(self, group: int | None, source: int, target: int) -> None:
        """Makes block `target` of a group the same as `source`, in all of its layers."""
        for array in self._arrays[group]:
            array[target] = array[source]

    def block_bytes(self, group: int | None) -> int:
        """Bytes of what `read` gives."""
        return sum(array[:1].nbytes for array in self._arrays[group])

    def read(self, group: int | None, block: int) -> bytes:
        """What a block stores, layer by layer, keys before values."""
        return b"".join(array[block].tobytes() for array in self._arrays[group])

    def write(self, group: int | None, block: int, data: bytes) -> None:
        """Puts back what `read` gave."""
        start = 0
        for array in self._arrays[group]:
            part = array[block]
            values = np.frombuffer(data, part.dtype, part.size, start)
            part[...] = values.reshape(part.shape)
            start += part.nbytes


def bytes_per_token(program: Program, types: KVTypes, group: int) -> int:
    """Bytes that one token's keys and values take in the layers of one KV group."""
    return sum(
        kv.num_kv_heads * (types.keys.row_bytes(kv.head_dim) + types.values.row_bytes(kv.value_dim))
        for kv in program.kv_layers
        if kv.group == group
    )


def bytes_per_slot(program: Program) -> int:
    """Bytes of all states of one sequence."""
    return sum(4 * rows * width for rows, width in (s.stored_shape for s in program.state_layers))
