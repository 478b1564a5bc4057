"""Binds a program to cache storage and a backend, or two: one for each part of it.

Knows nothing of files, text or requests.
"""

from collections.abc import Callable
from dataclasses import dataclass

from edgellm.backends import Backends
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import Program
from edgellm.kv_cache import HostStore, KVTypes, allocate, part_of
from edgellm.kv_plan import plan_blocks, plan_slots
from edgellm.limits import Limits
from edgellm.mixed import MixedExecutable
from edgellm.model_runner import BlockStore, Executable
from edgellm.placement import place
from edgellm.types import LoadOptions


@dataclass(frozen=True)
class Memory:
    """Bytes of this machine: `usable` for weights and cache together, `for_cache()` for the cache.

    The latter fails when weights leave nothing, which is no matter where they lie elsewhere.
    """

    usable: int
    for_cache: Callable[[], int]


@dataclass(frozen=True, eq=False)
class Bound:
    """A program bound to storage. where: backend, device and split: all that decides bits."""

    executable: Executable
    store: BlockStore
    kv: KVStorage
    num_blocks: tuple[int, ...]
    num_slots: int
    where: str


def bind(
    backend: str,
    program: Program,
    limits: Limits,
    types: KVTypes,
    options: LoadOptions,
    backends: Backends,
    memory: Memory,
) -> Bound:
    """BackendError for what does not fit or cannot run."""
    if backend == "opencl" and options.gpu_layers != 0:
        return _bind_to_gpu(program, limits, types, options, backends, memory)
    backend = "cpu" if backend == "opencl" else backend  # no layer is on the GPU
    for_cache = memory.for_cache()
    num_blocks = plan_blocks(program, limits, types, for_cache, options.kv_cache_memory)
    num_slots = plan_slots(program, limits, for_cache)
    kv = allocate(program, num_blocks, types, num_slots)
    executable = backends.get(backend, options.threads).load(program, kv)
    store = executable.store or HostStore(program, kv)
    return Bound(executable, store, kv, num_blocks, num_slots, backend)


def _bind_to_gpu(
    program: Program,
    limits: Limits,
    types: KVTypes,
    options: LoadOptions,
    backends: Backends,
    memory: Memory,
) -> Bound:
    """All layers, or as many of the last ones as are wanted or fit; the others on the processor."""
    device = backends.device(options.device)
    placement = place(
        program,
        limits,
        types,
        None if options.gpu_layers == "auto" else options.gpu_layers,
        host_memory=memory.usable,
        device_memory=min(device.memory, options.memory_limit or device.memory),
        cache_memory=options.kv_cache_memory,
    )
    kv = allocate(program, placement.num_blocks, types, placement.num_slots)
    split = f"{placement.gpu_layers} of {placement.num_layers} layers"
    backends.note(
        f"{split} run on {device.name}, {placement.device_weights / 2**30:.2f} GiB of weights"
    )
    second = device.load(placement.second, part_of(placement.second, kv))
    sizes = placement.num_blocks, placement.num_slots, f"opencl {device.name}, {split}"
    if placement.first is None:
        return Bound(second, second.store or HostStore(program, kv), kv, *sizes)
    own = part_of(placement.first, kv)
    first = backends.get("cpu", options.threads).load(placement.first, own)
    stores = HostStore(placement.first, own), second.store or HostStore(placement.second, kv)
    mixed = MixedExecutable(first, second, stores)
    return Bound(mixed, mixed.store, kv, *sizes)
