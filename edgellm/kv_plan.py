"""How large the key-value cache of a model becomes. Allocates nothing."""

from edgellm.errors import BackendError, RequestError
from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES
from edgellm.kernels.program import Program
from edgellm.kv_cache import KVTypes, bytes_per_slot, bytes_per_token
from edgellm.limits import Limits

_SHARE = 0.5  # of the memory available, that more than one context may take
_KEPT_STATES = 64
_GIB = 2.0**30


def parse_kv_types(text: str) -> KVTypes:
    """ "f16" or "f16/f32" (keys/values). RequestError for anything that cannot be stored."""
    names = text.lower().split("/")
    names = names * 2 if len(names) == 1 else names
    if len(names) != 2 or not CACHE_TYPES.keys() >= set(names):
        raise RequestError(
            f"kv_cache_type is {text!r}: expected one of {', '.join(CACHE_TYPES)}, "
            "or two of them as K/V",
            "kv_cache_type",
        )
    return KVTypes(CACHE_TYPES[names[0]], CACHE_TYPES[names[1]])


def plan_slots(program: Program, limits: Limits, memory: int) -> int:
    """Slots for recurrent states: one per sequence, and more to keep some for prompts that return.

    What is kept takes an eighth of `memory` bytes at most. 0 for a model without such states.
    """
    size = bytes_per_slot(program)
    if not size:
        return 0
    return limits.max_num_seqs + min(_KEPT_STATES, max(0, memory) // 8 // size)


def plan_blocks(
    program: Program, limits: Limits, types: KVTypes, memory: int, wanted: int | None = None
) -> tuple[int, ...]:
    """Blocks per KV group within `memory` bytes, so that one whole context fits at least.

    The states of plan_slots come first. wanted: bytes to take. None: a context for each sequence,
    or one more than the only one, so that prefixes outlive their sequences, and twice that of
    windows, which share less; but no more than half of the memory. BackendError when not even one
    context fits.
    """
    states = plan_slots(program, limits, memory) * bytes_per_slot(program)
    memory -= states
    groups = range(len(program.kv_groups))
    block_bytes = [bytes_per_token(program, types, group) * BLOCK_SIZE for group in groups]
    one = [limits.blocks(group, limits.context_length) for group in groups]
    least = sum(blocks * size for blocks, size in zip(one, block_bytes, strict=True))
    usable = memory if wanted is None else min(memory, wanted)
    if least > usable:
        raise BackendError(
            f"a context of {limits.context_length} tokens needs {(least + states) / _GIB:.2f} GiB "
            f"for keys and values and {max(0, usable + states) / _GIB:.2f} GiB is left: load the "
            "model with a smaller context"
        )
    # Contexts that there would be blocks for if memory were no matter.
    contexts = max(2, limits.max_num_seqs)
    shares = [contexts if window is None else 2 * contexts for window in limits.windows]
    whole = sum(n * b * s for n, b, s in zip(shares, one, block_bytes, strict=True))
    if wanted is None:
        usable = max(least, min(whole, int(_SHARE * memory)))
    part = (usable - least) / (whole - least) if whole else 0.0
    return tuple(b + int((n - 1) * b * part) for n, b in zip(shares, one, strict=True))
