"""How large the key-value cache of a model becomes. Allocates nothing."""

import numpy as np

from edgellm.errors import BackendError, RequestError
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.program import Program
from edgellm.kv_cache import KVType, KVTypes, bytes_per_slot, bytes_per_token
from edgellm.scheduler import Limits

KV_TYPES: dict[str, KVType] = {"f32": np.float32, "f16": np.float16}
_LATER = ("q8_0", "q4_0")
_SHARE = 0.5  # of the memory available, that more than one context may take
_GIB = 2.0**30


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

    The states of max_num_seqs sequences come first. BackendError when not even one context fits.
    """
    states = limits.max_num_seqs * bytes_per_slot(program)
    memory -= states
    groups = range(len(program.kv_groups))
    block_bytes = [bytes_per_token(program, types, group) * BLOCK_SIZE for group in groups]
    one = [limits.blocks(group, limits.context_length) for group in groups]
    least = sum(blocks * size for blocks, size in zip(one, block_bytes, strict=True))
    if least > memory:
        raise BackendError(
            f"a context of {limits.context_length} tokens needs {(least + states) / _GIB:.2f} GiB "
            f"for keys and values and {max(0, memory + states) / _GIB:.2f} GiB is left: load the "
            "model with a smaller context"
        )
    wanted = limits.max_num_seqs * least
    part = min(1.0, _SHARE * memory / wanted) if wanted else 1.0
    return tuple(max(blocks, int(limits.max_num_seqs * blocks * part)) for blocks in one)
