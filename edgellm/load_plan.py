"""What a model will take before it is loaded: its program, its limits, and where all of it goes.

`load` follows these plans and `fit` shows them. Opens no device and allocates nothing.
"""

from dataclasses import dataclass, replace

from edgellm.cold_experts import ExpertBytes, expert_bytes
from edgellm.errors import BackendError, GGUFError
from edgellm.gguf_loader import GGUFFile
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.program import Program
from edgellm.kv_cache import KVTypes, bytes_per_slot, bytes_per_token, check_widths
from edgellm.limits import Limits
from edgellm.memory import GPUMemory, available_memory
from edgellm.models import Adapter, ModelConfig, MTPHead, record, record_with_head
from edgellm.placement import Placement, place, place_on_host
from edgellm.types import DEFAULT_CONTEXT, LoadOptions

_TOKEN_BUDGET = 512  # rows of one step: of fewer, experts are read more often
_LOGITS_BYTES = 64 << 20  # of one step's logits, when every position's are wanted


@dataclass(frozen=True, eq=False)
class LoadPlan:
    """A recorded program and what bounds its steps.

    head: what predicts one token more than it; None where the file has none that can be used, and
    head_error says why, where it has one. usable: bytes of this machine's memory for weights and
    cache together. sizes: of the weights.
    """

    program: Program
    limits: Limits
    usable: int
    sizes: ExpertBytes
    head: MTPHead | None = None
    head_error: str | None = None


def plan_load(
    file: GGUFFile,
    config: ModelConfig,
    options: LoadOptions,
    usable: int,
    adapters: tuple[Adapter, ...] = (),
    with_head: bool = False,
) -> LoadPlan:
    """Records the program for the context of `options`, by default at most DEFAULT_CONTEXT.

    with_head: also that of the head behind it, where the file has one.
    """
    context = context_length(options, config)
    head, head_error = None, None
    try:
        if with_head:
            program, head = record_with_head(file, config, context, adapters)
        else:
            program = record(file, config, context, adapters)
    except GGUFError as error:
        if not with_head:
            raise
        program, head_error = record(file, config, context, adapters), str(error)
    experts = config.experts
    sizes = expert_bytes(file, experts.count if experts else 0, max(experts.used) if experts else 0)
    if sizes.total >= usable:
        program = replace(program, experts_on_disk=True)
        if head is not None:
            head = replace(head, program=replace(head.program, experts_on_disk=True))
    rows = max(_TOKEN_BUDGET, 2 * options.max_num_seqs)
    limits = Limits(
        context_length=context,
        max_num_seqs=options.max_num_seqs,
        block_size=BLOCK_SIZE,
        token_budget=rows if program.is_causal else max(rows, context),
        max_logits_rows=max(1, _LOGITS_BYTES // (4 * program.vocab_size)),
        windows=tuple(group.window for group in program.kv_groups),
        is_causal=program.is_causal,
    )
    return LoadPlan(program, limits, usable, sizes, head, head_error)


def place_load(
    plan: LoadPlan, types: KVTypes, options: LoadOptions, gpu_memory: GPUMemory | None = None
) -> Placement:
    """Where layers and cache go. gpu_memory: None where all stays here.

    BackendError for what does not fit.
    """
    check_widths(plan.program, types)
    if gpu_memory is None or options.gpu_layers == 0:
        memory = _memory_for_cache(plan.sizes, plan.usable)
        return place_on_host(plan.program, plan.limits, types, memory, options.kv_cache_memory)
    usable = min(gpu_memory.usable, options.memory_limit or gpu_memory.usable)
    return place(
        plan.program,
        plan.limits,
        types,
        None if options.gpu_layers == "auto" else options.gpu_layers,
        host_memory=plan.usable,
        gpu_memory=replace(gpu_memory, usable=usable),
        cache_memory=options.kv_cache_memory,
    )


def cache_bytes(program: Program, placement: Placement, types: KVTypes) -> int:
    """What keys, values and states take."""
    blocks = sum(
        bytes_per_token(program, types, group) * count * BLOCK_SIZE
        for group, count in enumerate(placement.num_blocks)
    )
    return blocks + placement.num_slots * bytes_per_slot(program)


def context_length(options: LoadOptions, config: ModelConfig) -> int:
    """Tokens of the longest sequence, as asked for or by default."""
    return options.context_length or min(config.context_length, DEFAULT_CONTEXT)


def usable_memory(memory_limit: int | None) -> int:
    """Bytes that a model may take now. memory_limit: the most that it is granted; None: no such."""
    usable = available_memory()
    return usable if memory_limit is None else min(usable, memory_limit)


def _memory_for_cache(sizes: ExpertBytes, usable: int) -> int:
    """Bytes for keys and values: what the weights leave, of which experts may stay on disk.

    BackendError when those that every token needs leave nothing.
    """
    if usable <= sizes.least:
        raise BackendError(
            f"the weights take {sizes.least / 2**30:.2f} GiB of memory and "
            f"{usable / 2**30:.2f} GiB may be used: load a smaller model"
        )
    return usable - (sizes.total if sizes.total < usable else sizes.least)
