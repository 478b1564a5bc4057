"""How large the key-value cache of a model becomes. Allocates the storage, hands out no block."""

from dataclasses import dataclass

import numpy as np

from edgellm.errors import BackendError, RequestError
from edgellm.kernels.kv import BLOCK_SIZE, KVStorage
from edgellm.kernels.ops import Program
from edgellm.kv_cache import KVType, allocate, bytes_per_token
from edgellm.scheduler import Limits

KV_TYPES: dict[str, KVType] = {"f32": np.float32, "f16": np.float16}
_LATER = ("q8_0", "q4_0")
_SHARE = 0.5  # of the memory available, that more than one context may take
_GIB = 2.0**30


@dataclass(frozen=True)
class KVTypes:
    """Storage types of keys and of values."""

    keys: KVType
    values: KVType

    def bytes_per_token(self, program: Program, group: int) -> int:
        """Bytes of one token's keys and values in the layers of one KV group."""
        both = (self.keys, self.values)
        return sum(bytes_per_token(program, dtype, group) for dtype in both) // 2

    def allocate(self, program: Program, num_blocks: tuple[int, ...]) -> KVStorage:
        """Storage; it takes no memory before it is written to. BackendError when there is none."""
        keys = allocate(program, num_blocks, self.keys)
        if self.values is self.keys:
            return keys
        return KVStorage(keys.keys, allocate(program, num_blocks, self.values).values)


def parse_kv_types(text: str) -> KVTypes:
    """ "f16" or "f16/f32" (keys/values). RequestError for anything that cannot be stored."""
    names = text.lower().split("/")
    names = names * 2 if len(names) == 1 else names
    for name in names:
        if name in _LATER:
            raise RequestError(
                f"a {name} key-value cache is not supported yet: use f16 or f32", "kv_cache_type"
            )
    if len(names) != 2 or not KV_TYPES.keys() >= set(names):
        raise RequestError(
            f"kv_cache_type is {text!r}: expected {' or '.join(KV_TYPES)}, or two of them as K/V",
            "kv_cache_type",
        )
    return KVTypes(KV_TYPES[names[0]], KV_TYPES[names[1]])


def plan_blocks(program: Program, limits: Limits, types: KVTypes, memory: int) -> tuple[int, ...]:
    """Blocks per KV group within `memory` bytes: as many whole sequences as wanted, at least one.

    BackendError when not even one context fits.
    """
    groups = range(len(program.kv_groups))
    block_bytes = [types.bytes_per_token(program, group) * BLOCK_SIZE for group in groups]
    one = [limits.blocks(group, limits.context_length) for group in groups]
    least = sum(blocks * size for blocks, size in zip(one, block_bytes, strict=True))
    if least > memory:
        raise BackendError(
            f"a context of {limits.context_length} tokens needs {least / _GIB:.2f} GiB for keys "
            f"and values and {max(0, memory) / _GIB:.2f} GiB is left: load the model with a "
            "smaller context"
        )
    wanted = limits.max_num_seqs * least
    part = min(1.0, _SHARE * memory / wanted) if wanted else 1.0
    return tuple(max(blocks, int(limits.max_num_seqs * blocks * part)) for blocks in one)
