"""A model file made ready to step: program, key-value cache, backend, engine.

Knows nothing of text, requests, other models or callers. This is the only place where the rooms
that compute are put together.
"""

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass

from edgellm.backend_kinds import ROWS, backend_name
from edgellm.backends import Backends
from edgellm.binding import Bound, bind
from edgellm.block_pool import BlockPool
from edgellm.cold_experts import ColdExperts
from edgellm.config import cache_dir
from edgellm.drafters import MTP, Drafter, HeadRunner, Speculation
from edgellm.drafters.mtp import Room
from edgellm.engine import Engine
from edgellm.errors import BackendError, RequestError
from edgellm.gguf_loader import GGUFFile
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import Program
from edgellm.kv_cache import KVTypes
from edgellm.kv_plan import parse_kv_types
from edgellm.limits import Limits
from edgellm.load_plan import LoadPlan, plan_load, usable_memory
from edgellm.model_runner import ModelRunner
from edgellm.models import Adapter, ModelConfig
from edgellm.sampling import Find, Vocabulary, compiled_find, find_best
from edgellm.scheduler import Scheduler
from edgellm.sequence import Sequence
from edgellm.step_cost import StepCost
from edgellm.types import LoadOptions


@dataclass(frozen=True, eq=False)
class Ready:
    """All that steps need, without text: `engine` runs `program` with the storage `kv`.

    where: backend, device and split: what is computed elsewhere has other bits. has_head: whether
    the file's head guesses, which then has a layer of the cache. find: for samplers, in the
    engine's thread.
    """

    backend: str
    where: str
    kv_cache_type: str
    limits: Limits
    program: Program
    kv: KVStorage
    engine: Engine
    has_head: bool = False
    find: Find = find_best

    @property
    def numerics(self) -> Mapping[str, str | int]:
        """What the bits in the cache depend on beside the file."""
        return {
            "backend": self.where,
            "kv_cache_type": self.kv_cache_type,
            "context_length": self.limits.context_length,
            **({"mtp_heads": 1} if self.has_head else {}),
        }

    @property
    def kv_cache_bytes(self) -> int:
        """What keys, values and states of recurrences take."""
        return sum(a.nbytes for a in (*self.kv.keys, *self.kv.values, *self.kv.states))


def make_ready(
    file: GGUFFile,
    config: ModelConfig,
    options: LoadOptions,
    backends: Backends,
    adapters: tuple[Adapter, ...] = (),
    drafters: tuple[Drafter, ...] = (),
    vocabulary: Vocabulary | None = None,
) -> Ready:
    """Records the file's program and binds it to cache storage and one of the backends.

    drafters: guess tokens ahead; without any, each step computes one of each answer. vocabulary:
    with it a head in the file guesses, too, after the first of them.
    Errors are those of load_model. The files must stay open until the engine is closed.
    """
    backend, types = check_options(options)
    usable, with_head = usable_memory(options.memory_limit), vocabulary is not None
    plan = plan_load(file, config, options, usable, adapters, with_head and backend != "opencl")
    if plan.head_error is not None:
        backends.note(f"the file's MTP head is left: {plan.head_error}")
    program, limits = plan.program, plan.limits
    try:
        bound = bind(backend, plan, types, options, backends)
    except BackendError as error:
        if options.backend != "auto" or backend == "cpu":
            raise
        backends.note(f"{error}; running on the processor instead")
        backend = "cpu"
        bound = bind(backend, plan, types, options, backends)
    with ExitStack() as opened:
        opened.enter_context(closing(bound))
        find = compiled_find(cache_dir()) if backend == "cpu" else find_best
        engine = _make_engine(file, plan, bound, drafters, vocabulary)
        opened.pop_all()  # the engine closes it
    kv_cache_type = options.kv_cache_type or ROWS[backend].kv_cache_type
    has_head = bound.head is not None
    return Ready(
        backend, bound.where, kv_cache_type, limits, program, bound.kv, engine, has_head, find
    )


def _make_engine(
    file: GGUFFile,
    plan: LoadPlan,
    bound: Bound,
    drafters: tuple[Drafter, ...],
    vocabulary: Vocabulary | None,
) -> Engine:
    program, limits = plan.program, plan.limits
    pools = tuple(BlockPool(blocks) for blocks in bound.num_blocks)
    after_step = ColdExperts(file, plan.usable).trim if program.experts_on_disk else None
    reads = None if plan.head is None else plan.head.reads
    runner = ModelRunner(bound.executable, program, bound.store, after_step, reads)
    states = BlockPool(bound.num_slots) if bound.num_slots else None
    scheduler = Scheduler(pools, limits, states, StepCost())
    if plan.head is not None and bound.head is not None and vocabulary is not None:
        head = HeadRunner(plan.head, bound.head)
        drafters = (*drafters[:1], MTP(head, _room(scheduler, runner), vocabulary), *drafters[1:])
    speculation = Speculation(drafters, limits, states is not None, reads) if drafters else None
    return Engine(runner, scheduler, speculation)


def _room(scheduler: Scheduler, runner: ModelRunner) -> Room:
    """Gives a sequence blocks of its own for what is guessed, before the step that reserves them.

    Copies are made at once: what the head writes there must not be overwritten by them.
    """

    def make(sequence: Sequence, count: int) -> bool:
        has_room = scheduler.tables.make_room(sequence, count)
        runner.copy(scheduler.take_copies())
        return has_room

    return make


def check_options(options: LoadOptions) -> tuple[str, KVTypes]:
    """The backend that is meant, and its cache types.

    RequestError or BackendError for an option that cannot be used.
    """
    for field in ("threads", "context_length", "memory_limit", "kv_cache_memory"):
        value = getattr(options, field)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise RequestError(f"{field} is {value!r}: at least 1 is expected", field)
    most = options.max_num_seqs
    if not isinstance(most, int) or not 1 <= most <= 256:
        raise RequestError(f"max_num_seqs is {most!r}: 1 to 256 is expected", "max_num_seqs")
    backend = backend_name(options.backend)
    if options.device is not None and backend != "opencl":
        raise RequestError(
            f"device is {options.device!r} and the backend {backend}: no device is expected there",
            "device",
        )
    _check_gpu_layers(options.gpu_layers, backend)
    return backend, parse_kv_types(options.kv_cache_type or ROWS[backend].kv_cache_type)


def _check_gpu_layers(gpu_layers: int | str, backend: str) -> None:
    if gpu_layers == "auto":
        return
    if not isinstance(gpu_layers, int) or gpu_layers < 0:
        raise RequestError(
            f"gpu_layers is {gpu_layers!r}: a number from 0, or auto, is expected", "gpu_layers"
        )
    if gpu_layers and backend != "opencl":
        raise RequestError(
            f"gpu_layers is {gpu_layers} and the backend {backend}: 0 or auto is expected there",
            "gpu_layers",
        )
