"""Binds a planned program to cache storage and a backend, or two: one for each part of it.

Knows nothing of files, text or requests.
"""

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from edgellm.backends import Backends
from edgellm.errors import OutOfDeviceMemory
from edgellm.kernels.kv import KVStorage
from edgellm.kv_cache import HostStore, KVTypes, allocate, part_of
from edgellm.load_plan import LoadPlan, place_load
from edgellm.memory import GPUMemory
from edgellm.mixed import MixedExecutable
from edgellm.model_runner import BlockStore, Executable
from edgellm.placement import Placement
from edgellm.types import LoadOptions


@dataclass(frozen=True, eq=False)
class Bound:
    """A program bound to storage. where: backend, device and split: all that decides bits.

    head: the plan's head, over the same storage.
    """

    executable: Executable
    store: BlockStore
    kv: KVStorage
    num_blocks: tuple[int, ...]
    num_slots: int
    where: str
    head: Executable | None = None

    def close(self) -> None:
        """Closes what is bound, while no engine has it."""
        self.executable.close()
        if self.head is not None:
            self.head.close()


def bind(
    backend: str, plan: LoadPlan, types: KVTypes, options: LoadOptions, backends: Backends
) -> Bound:
    """BackendError for what does not fit or cannot run."""
    if backend == "opencl" and options.gpu_layers != 0:
        return _bind_to_gpu(plan, types, options, backends)
    program = plan.program
    backend = "cpu" if backend == "opencl" else backend  # no layer is on the GPU
    placement = place_load(plan, types, options)
    kv = allocate(program, placement.num_blocks, types, placement.num_slots)
    runs = backends.get(backend, options.threads)
    with ExitStack() as loaded:
        executable = loaded.enter_context(closing(runs.load(program, kv)))
        head = None if plan.head is None else runs.load(plan.head.program, kv)
        loaded.pop_all()  # whoever gets it closes it
    store = executable.store or HostStore(program, kv)
    return Bound(executable, store, kv, placement.num_blocks, placement.num_slots, backend, head)


def _bind_to_gpu(plan: LoadPlan, types: KVTypes, options: LoadOptions, backends: Backends) -> Bound:
    """All layers, or as many of the last ones as are wanted or fit; the others on the processor.

    Where the number is ours to choose and the device refuses the memory, a quarter stays here, too.
    """
    device = backends.device(options.device)
    memory = GPUMemory(device.memory, device.at_once, device.shares_memory)
    placement = place_load(plan, types, options, memory)
    while True:
        try:
            return _bind_placed(placement, plan, types, options, backends)
        except OutOfDeviceMemory as error:
            fewer = placement.gpu_layers * 3 // 4
            if options.gpu_layers != "auto" or not fewer:
                raise
            backends.note(f"{error}; trying {fewer} layers")
        placement = place_load(plan, types, replace(options, gpu_layers=fewer), memory)


def _bind_placed(
    placement: Placement,
    plan: LoadPlan,
    types: KVTypes,
    options: LoadOptions,
    backends: Backends,
) -> Bound:
    device, program, limits = backends.device(options.device), plan.program, plan.limits
    assert placement.second is not None
    kv = allocate(program, placement.num_blocks, types, placement.num_slots)
    split = f"{placement.gpu_layers} of {placement.num_layers} layers"
    backends.note(
        f"{split} run on {device.name}, {placement.device_weights / 2**30:.2f} GiB of weights; "
        f"{device.memory_note}"
    )
    with ExitStack() as loaded:
        part = part_of(placement.second, kv)
        second = loaded.enter_context(closing(device.load(placement.second, part)))
        second.reserve(limits.token_budget, limits.max_num_seqs)
        if placement.first is not None:
            own = part_of(placement.first, kv)
            first = backends.get("cpu", options.threads).load(placement.first, own)
        loaded.pop_all()
    where = f"opencl {device.name}, {split}"  # loading may have changed how kernels are cut
    sizes = placement.num_blocks, placement.num_slots, where
    if placement.first is None:
        return Bound(second, second.store or HostStore(program, kv), kv, *sizes)
    stores = HostStore(placement.first, own), second.store or HostStore(placement.second, kv)
    mixed = MixedExecutable(first, second, stores)
    return Bound(mixed, mixed.store, kv, *sizes)
