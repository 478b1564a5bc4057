"""Which layers of a program run on a GPU, and how many cache blocks there is memory for.

Decides from numbers alone; allocates nothing and asks no device.
"""

import re
from dataclasses import dataclass, replace

from edgellm.errors import BackendError
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.program import OpCall, Program
from edgellm.kernels.split import cached_layers, split, states_used
from edgellm.kv_cache import KVTypes, bytes_per_token
from edgellm.kv_plan import plan_blocks, plan_slots
from edgellm.limits import Limits
from edgellm.memory import GPUMemory

_LAYER = re.compile(r"blk\.(\d+)\.")
_SCRATCH_VALUES = 8  # values of the widest kind that are alive at once, at most


@dataclass(frozen=True, eq=False)
class Placement:
    """The last `gpu_layers` of `num_layers` layers, and what follows them, are `second`.

    first: what runs on the processor, None where all is on the GPU; second: what runs there, None
    where nothing is. num_blocks, num_slots: of the cache, the same for both.
    """

    first: Program | None
    second: Program | None
    gpu_layers: int
    num_layers: int
    num_blocks: tuple[int, ...]
    num_slots: int

    @property
    def device_weights(self) -> int:
        """Bytes of the weights that the GPU holds."""
        return 0 if self.second is None else weight_bytes(self.second.calls)


def place_on_host(
    program: Program, limits: Limits, types: KVTypes, memory: int, cache_memory: int | None = None
) -> Placement:
    """All of it on the processor, the cache within `memory` bytes, or BackendError."""
    blocks = plan_blocks(program, limits, types, memory, cache_memory)
    slots = plan_slots(program, limits, memory)
    return Placement(program, None, 0, len(layer_starts(program)), blocks, slots)


def place(
    program: Program,
    limits: Limits,
    types: KVTypes,
    gpu_layers: int | None,
    *,
    host_memory: int,
    gpu_memory: GPUMemory,
    cache_memory: int | None = None,
) -> Placement:
    """gpu_layers: at least 1; None is as many as fit. Memory in bytes, weights and cache together.

    BackendError when what is asked for does not fit, or nothing does.
    """
    starts = layer_starts(program)
    most = len(starts)
    tries = range(most, 0, -1) if gpu_layers is None else (min(gpu_layers, most),)
    error = BackendError("the model has no layers to put on a GPU: use --backend cpu")
    for count in tries:
        whole = count == most
        first, second = (None, program) if whole else split(program, starts[most - count])
        taken = weight_bytes(second.calls) + scratch_bytes(second, limits)
        left = host_memory - (0 if first is None else weight_bytes(first.calls))
        parts = [(second, gpu_memory.usable - taken)]
        if first is not None:
            parts.append((first, left))
        if gpu_memory.is_shared:
            parts = [(part, min(memory, left - taken)) for part, memory in parts]
        try:
            blocks, slots = _cache(
                program, parts, limits, types, cache_memory, gpu_memory.is_shared
            )
            holds = _most_blocks(second, limits, types, gpu_memory.at_once)
        except BackendError as found:
            error = BackendError(f"{count} of {most} layers do not fit on the GPU: {found}")
            continue
        blocks = tuple(min(counts) for counts in zip(blocks, holds, strict=True))
        return Placement(first, second, count, most, blocks, slots)
    raise error


def layer_starts(program: Program) -> list[int]:
    """The position of the first call that uses a weight of each layer, by GGUF's tensor names."""
    starts: dict[int, int] = {}
    for position, call in enumerate(program.calls):
        for weight in call.weights:
            found = _LAYER.match(weight.name)
            if found:
                starts.setdefault(int(found[1]), position)
    return [starts[layer] for layer in sorted(starts)]


def weight_bytes(calls: tuple[OpCall, ...]) -> int:
    """Bytes of all weights that the calls use, each counted once."""
    sizes = {w.data.ctypes.data: w.data.nbytes for call in calls for w in call.weights}
    return sum(sizes.values())


def scratch_bytes(program: Program, limits: Limits) -> int:
    """Bytes of the values of one step, and of its logits."""
    rows = 1 << (limits.token_budget - 1).bit_length()
    widths = [c.output.width for c in program.calls if c.output and c.output.rows == "tokens"]
    logits = 4 * program.vocab_size * max(limits.max_num_seqs, limits.max_logits_rows)
    return _SCRATCH_VALUES * 4 * rows * max(widths, default=0) + logits


def _cache(
    program: Program,
    parts: list[tuple[Program, int]],
    limits: Limits,
    types: KVTypes,
    wanted: int | None,
    is_shared: bool,
) -> tuple[tuple[int, ...], int]:
    """Blocks per KV group and slots of states that every part has memory for.

    is_shared: the memory of one part is that of the other: each takes its share of the cache there.
    """
    whole = _bytes_of_layers(program, types)
    plans, slots = [], [plan_slots(program, limits, memory) for _, memory in parts]
    for part, memory in parts:
        own = _own_layers(part)
        if memory < 0:
            raise BackendError(f"{-memory / 2**30:.2f} GiB are missing for weights and scratch")
        share = _bytes_of_layers(own, types)
        if is_shared and whole:
            memory = memory * share // whole
        if share or own.state_layers:
            portion = None if wanted is None else wanted * share // max(1, whole)
            plans.append(plan_blocks(own, limits, types, memory, portion))
    if not plans:  # no layer keeps anything
        plans.append(plan_blocks(program, limits, types, parts[0][1], wanted))
    return tuple(min(counts) for counts in zip(*plans, strict=True)), min(slots)


def _most_blocks(program: Program, limits: Limits, types: KVTypes, at_once: int) -> list[int]:
    """Blocks per KV group of which the keys and the values of a layer fit in a buffer each.

    BackendError where not even those of one context do, or a matrix does not.
    """
    for weight in (weight for call in program.calls for weight in call.weights):
        _check_at_once(weight.name, weight.data.nbytes, at_once)
    most = []
    for group in range(len(program.kv_groups)):
        layers = [kv for kv in _own_layers(program).kv_layers if kv.group == group]
        widths = [
            kv.num_kv_heads * width
            for kv in layers
            for width in (types.keys.row_bytes(kv.head_dim), types.values.row_bytes(kv.value_dim))
        ]
        size = BLOCK_SIZE * max(widths, default=1)
        one = limits.blocks(group, limits.context_length)
        _check_at_once(f"a layer's cache of {limits.context_length} tokens", one * size, at_once)
        most.append(at_once // size)
    return most


def _check_at_once(what: str, size: int, at_once: int) -> None:
    if size > at_once:
        raise BackendError(
            f"{what} takes {size / 2**30:.2f} GiB and the GPU gives at most "
            f"{at_once / 2**30:.2f} GiB at once"
        )


def _bytes_of_layers(program: Program, types: KVTypes) -> int:
    return sum(bytes_per_token(program, types, group) for group in range(len(program.kv_groups)))


def _own_layers(program: Program) -> Program:
    """The program with the cache layers and states that its calls use, for counting alone."""
    layers, states = sorted(cached_layers(program)), sorted(states_used(program))
    return replace(
        program,
        kv_layers=tuple(program.kv_layers[i] for i in layers),
        state_layers=tuple(program.state_layers[i] for i in states),
    )
