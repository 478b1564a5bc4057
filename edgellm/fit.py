"""How a model file could run in given memory: contexts, cache types, layers on a GPU.

Every answer is a plan of `load_plan`, the one that loading follows: nothing is estimated. Knows
nothing of catalogues and devices beyond their memory; allocates nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgellm.errors import BackendError, GGUFError
from edgellm.gguf_loader import GGUFFile, open_gguf
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kv_plan import parse_kv_types
from edgellm.load_plan import cache_bytes, context_length, place_load, plan_load
from edgellm.memory import GPUMemory
from edgellm.models import ModelConfig, read_config
from edgellm.types import LoadOptions

KV_CACHE_TYPES = ("f16", "q8_0", "q8_0/q4_0", "q4_0")  # the best first


@dataclass(frozen=True)
class Room:
    """A place to run in. memory: bytes of the processor's; gpu_memory: None without a GPU."""

    device: str
    memory: int
    gpu_memory: GPUMemory | None = None

    @property
    def gpu(self) -> int:
        """Bytes that may be taken of a GPU's."""
        gpu = self.gpu_memory
        if gpu is None:
            return 0
        return min(gpu.usable, self.memory) if gpu.is_shared else gpu.usable

    @property
    def total(self) -> int:
        """Bytes of both."""
        is_shared = self.gpu_memory is not None and self.gpu_memory.is_shared
        return self.memory if is_shared else self.memory + self.gpu


@dataclass(frozen=True)
class Way:
    """One way to run a file.

    longest: tokens of the longest context that fits, 0 for none. reason: why the wanted context
    does not fit; None when it does. The rest is of the wanted context, zero when it does not fit.
    weights: bytes in memory, those on the GPU (gpu_weights) included. kv_cache: as `load` would
    allocate it, states included.
    """

    device: str
    kv_cache_type: str
    longest: int
    reason: str | None
    gpu_layers: int = 0
    layers: int = 0
    weights: int = 0
    gpu_weights: int = 0
    kv_cache: int = 0
    experts_on_disk: bool = False


@dataclass(frozen=True)
class Fit:
    """What became of one model. path: None when its file is not here. size: of its weights, or of
    the file where only that is known. context: what is wanted, trained: the most it was trained
    for. best: the first of the best cache type, on the GPU where it can. reason: why there are no
    ways to speak of. variant: the mixture that `path` would first have to be quantised to."""

    model: str
    path: str | None
    size: int | None
    context: int | None
    trained: int | None
    ways: tuple[Way, ...] = ()
    best: Way | None = None
    reason: str | None = None
    variant: str | None = None


def fit(
    path: Path,
    name: str,
    rooms: Sequence[Room],
    context: int | None = None,
    kv_cache_types: Sequence[str] = KV_CACHE_TYPES,
    max_num_seqs: int = 1,
) -> Fit:
    """Plans a file for every room and cache type.

    context: tokens; None is what `load` takes. RequestError for a cache type that there is not.
    """
    try:
        with open_gguf(path) as file:
            config = read_config(file)
            options = LoadOptions(context_length=context, max_num_seqs=max_num_seqs)
            ways = tuple(
                _way(file, config, replace(options, kv_cache_type=types), room)
                for room in rooms
                for types in kv_cache_types
            )
            size = file.num_bytes
            wanted = context_length(options, config)
    except GGUFError as error:
        return Fit(name, str(path), None, context, None, reason=str(error))
    return Fit(name, str(path), size, wanted, config.context_length, ways, _best(ways))


def largest(fits: Iterable[Fit]) -> Fit | None:
    """Of those that can run as wanted the one with the most bytes; the first of equals."""
    able = [found for found in fits if found.best is not None]
    return max(able, key=lambda found: found.size or 0, default=None)


def _best(ways: Sequence[Way]) -> Way | None:
    able = [way for way in ways if way.reason is None]
    types = [way.kv_cache_type for way in ways]
    return min(
        able, key=lambda way: (types.index(way.kv_cache_type), -way.gpu_layers), default=None
    )


def _way(file: GGUFFile, config: ModelConfig, options: LoadOptions, room: Room) -> Way:
    longest = _longest(file, config, options, room)
    assert options.kv_cache_type is not None
    types = parse_kv_types(options.kv_cache_type)
    try:
        plan = plan_load(file, config, options, room.memory)
        placement = place_load(plan, types, options, room.gpu_memory)
    except BackendError as error:
        return Way(room.device, options.kv_cache_type, longest, str(error))
    on_disk = plan.program.experts_on_disk and placement.second is None
    return Way(
        room.device,
        options.kv_cache_type,
        longest,
        None,
        placement.gpu_layers,
        placement.num_layers,
        plan.sizes.least if on_disk else plan.sizes.total,
        placement.device_weights,
        cache_bytes(plan.program, placement, types),
        on_disk,
    )


def _longest(file: GGUFFile, config: ModelConfig, options: LoadOptions, room: Room) -> int:
    """Tokens of the longest context up to what the model was trained for, by halving."""
    assert options.kv_cache_type is not None
    types = parse_kv_types(options.kv_cache_type)

    def fits(context: int) -> bool:
        tried = replace(options, context_length=context)
        try:
            place_load(plan_load(file, config, tried, room.memory), types, tried, room.gpu_memory)
        except BackendError:
            return False
        return True

    if fits(config.context_length):
        return config.context_length
    low, high = 0, -(-config.context_length // BLOCK_SIZE)  # blocks: low fits, high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * BLOCK_SIZE) else (low, middle)
    return low * BLOCK_SIZE
