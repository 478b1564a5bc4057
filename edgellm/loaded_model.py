"""A model made ready to run: file, tokenizer, program, key-value cache, backend, engine.

Knows nothing of other models, requests or callers. This is the only place where the rooms below
are put together.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from edgellm.adapter_files import AdapterFiles, open_adapters
from edgellm.advice import advised_by
from edgellm.backends import ROWS, Backends, Note, backend_name
from edgellm.binding import Memory, bind
from edgellm.block_pool import BlockPool
from edgellm.chat_template import ChatTemplate, load_chat_template
from edgellm.cold_experts import ColdExperts, ExpertBytes, expert_bytes
from edgellm.constraints import Words
from edgellm.dialects import MARKS
from edgellm.drafters import Drafter, DraftModel, PromptLookup, Speculation
from edgellm.engine import Engine
from edgellm.errors import BackendError, RequestError
from edgellm.fim import fill
from edgellm.gguf_loader import GGUFFile, open_gguf
from edgellm.kernels.kv import BLOCK_SIZE, KVStorage
from edgellm.kernels.program import Program
from edgellm.kv_cache import KVTypes
from edgellm.kv_plan import parse_kv_types
from edgellm.limits import Limits
from edgellm.memory import available_memory
from edgellm.model_runner import ModelRunner
from edgellm.models import (
    Adapter,
    ModelConfig,
    PooledHead,
    read_config,
    read_pooled_head,
    record,
)
from edgellm.scheduler import Scheduler
from edgellm.sessions import Key, fingerprint, session_key
from edgellm.step_cost import StepCost
from edgellm.tokenizer import Tokenizer, load_tokenizer
from edgellm.types import (
    DEFAULT_CONTEXT,
    FimPrompt,
    Hole,
    LoadOptions,
    Message,
    Messages,
    ModelDetails,
    ModelInfo,
)

_TOKEN_BUDGET = 512  # rows of one step beside one per sequence
_LOGITS_BYTES = 64 << 20  # of one step's logits, when every position's are wanted


class LoadedModel:
    """One open model. `engine` is to be stepped by the engine's thread alone.

    note: is told what users should know of how the file is read. numerics: what the bits in the
    cache depend on beside the file. draft_bytes: what a model that guesses for it takes. head: what
    pooled rows become.
    """

    def __init__(
        self,
        file: GGUFFile,
        tokenizer: Tokenizer,
        engine: Engine,
        info: ModelInfo,
        note: Note,
        adapters: AdapterFiles | None = None,
        numerics: Mapping[str, str | int] | None = None,
        draft_bytes: int = 0,
        head: PooledHead | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.engine = engine
        self.info = info
        self._file = file
        self._adapters = adapters
        self._note = note
        self._numerics = numerics or {}
        self._draft_bytes = draft_bytes
        self.head = head or PooledHead()
        self._template: ChatTemplate | None = None

    @cached_property
    def session_key(self) -> Key:
        """What a session of this model can be restored with; reads pieces of the file once."""
        adapters = self.info.adapters
        return session_key(
            self._file.parts,
            adapters=fingerprint([Path(adapter.path) for adapter in adapters]),
            scales=" ".join(str(adapter.scale) for adapter in adapters),
            **self._numerics,
        )

    @property
    def chat_template(self) -> ChatTemplate:
        """Read when it is first needed."""
        if self._template is None:
            bos, eos = self.tokenizer.bos_text, self.tokenizer.eos_text
            self._template = load_chat_template(self._file, bos, eos)
            if self._template.is_default:
                self._note(
                    f"{self.info.name} brings no chat template: {self._template.origin} is used"
                )
        return self._template

    @property
    def rerank_template(self) -> str | None:
        """How the file wants a {query} and a {document} put together, if it says so."""
        return self._file.string("tokenizer.chat_template.rerank")

    @cached_property
    def words(self) -> Words:
        """The vocabulary for constraints; made when one is first asked for."""
        return Words(self.tokenizer)

    def chat_ids(
        self, messages: Messages, tools: list[Message] | None = None, **variables: Any
    ) -> list[int]:
        """Messages as token ids that end where an answer begins, with exactly one BOS.

        variables: more that the template may read.
        """
        prompt = self.chat_template.render(messages, tools=tools, **variables)
        return self.tokenizer.encode_prompt(prompt)

    def fim_prompt(self, hole: Hole, max_tokens: int | None, suffix_limit: int | None) -> FimPrompt:
        """The prompt that fills a hole; `fim.fill` of this model."""
        return fill(self.tokenizer, self.info.context_length, hole, max_tokens, suffix_limit)

    @property
    def num_bytes(self) -> int:
        """What weights and cache may take of memory, those of its draft model included."""
        weights = sum(tensor.nbytes for tensor in self._file.tensors.values())
        return weights + self.info.kv_cache_bytes + self._draft_bytes

    @cached_property
    def _control_marks(self) -> Mapping[str, int]:
        """The markers of dialects that are control tokens here."""
        found = {}
        for mark in MARKS:
            ids = self.tokenizer.encode(mark, add_special=False)
            if len(ids) == 1 and self.tokenizer.is_control(ids[0]):
                found[mark] = ids[0]
        return found

    @cached_property
    def _details(self) -> ModelDetails:
        tokenizer, architecture = self.tokenizer, self.info.architecture
        weights: Counter[str] = Counter()
        for tensor in self._file.tensors.values():
            weights[tensor.type_name] += tensor.num_elements
        return ModelDetails(
            name=self.info.name,
            architecture=architecture,
            chat_template=self.chat_template.source,
            bos_text=tokenizer.bos_text,
            eos_text=tokenizer.eos_text,
            bos_id=tokenizer.bos_id,
            add_bos=tokenizer.add_bos,
            eog_ids=tuple(sorted(tokenizer.eog_ids)),
            fim={role: i for role, i in asdict(tokenizer.fim).items() if i is not None},
            parameters=weights.total(),
            size=sum(tensor.nbytes for tensor in self._file.tensors.values()),
            quantization=max(weights, key=weights.__getitem__, default="unknown"),
            trained_context=self._file.integer(f"{architecture}.context_length"),
            hidden_size=self._file.integer(f"{architecture}.embedding_length"),
            tool_template=self.chat_template.variants.get("tool_use"),
            control_marks=self._control_marks,
        )

    def details(self) -> ModelDetails:
        """What front ends report of the model."""
        return self._details

    def close(self) -> None:
        """Closes the file and the template. The engine must be closed already."""
        if self._template is not None:
            self._template.close()
        if self._adapters is not None:
            self._adapters.close()
        self._file.close()


def load_model(
    path: Path,
    name: str,
    options: LoadOptions,
    sampling: Mapping[str, float],
    backends: Backends,
    note: Note,
    draft: Path | None = None,
) -> LoadedModel:
    """Opens the file and binds it to one of the backends.

    draft: a smaller model's file, which guesses. GGUFError for a file, RequestError for an option,
    BackendError for what cannot run here.
    """
    _check(options)  # before the file is read
    with ExitStack() as opened:
        file = opened.enter_context(open_gguf(path))
        config = read_config(file)
        adapters = open_adapters(options.adapters, config.architecture)
        opened.callback(adapters.close)
        tokenizer = load_tokenizer(file)
        head = read_pooled_head(file, config)
        drafters: tuple[Drafter, ...] = (PromptLookup(),)
        draft_bytes = 0
        if draft is not None:
            context = options.context_length or min(config.context_length, DEFAULT_CONTEXT)
            drafter, draft_bytes = load_draft(draft, tokenizer, context, options, backends)
            opened.callback(drafter.close)
            drafters = (*drafters, drafter)
            left = max(1, _usable_memory(options.memory_limit) - draft_bytes)
            options = replace(options, memory_limit=left)
        ready = make_ready(file, config, options, backends, adapters.adapters, drafters)
        opened.pop_all()  # the model closes them
    advice = advised_by(file, lambda text: note(f"{name}: {text}"))
    info = ModelInfo(
        name=name,
        path=str(path),
        architecture=config.architecture,
        backend=ready.backend,
        context_length=ready.limits.context_length,
        vocab_size=ready.program.vocab_size,
        kv_cache_bytes=sum(
            array.nbytes for array in (*ready.kv.keys, *ready.kv.values, *ready.kv.states)
        ),
        sampling={**advice, **sampling},
        max_num_seqs=ready.limits.max_num_seqs,
        adapters=adapters.infos,
        generates="logits" in ready.program.outputs,
        pooling=head.pooling,
    )
    for text in tokenizer.notes:
        note(f"{name}: {text}")
    numerics: dict[str, str | int] = {
        "backend": ready.where,
        "kv_cache_type": ready.kv_cache_type,
        "context_length": ready.limits.context_length,
    }
    return LoadedModel(
        file, tokenizer, ready.engine, info, note, adapters, numerics, draft_bytes, head
    )


def load_draft(
    path: Path, tokenizer: Tokenizer, context: int, options: LoadOptions, backends: Backends
) -> tuple[DraftModel, int]:
    """A model that guesses for one with this tokenizer and context, and the bytes it takes.

    RequestError when its tokens are others.
    """
    with ExitStack() as opened:
        file = opened.enter_context(open_gguf(path))
        vocabulary = load_tokenizer(file)
        difference = tokenizer.difference(vocabulary)
        if difference is not None:
            raise RequestError(
                f"{path.name} cannot guess for this model, their tokens differ: {difference}",
                "draft",
            )
        config = read_config(file)
        context = min(context, config.context_length)
        own = replace(options, context_length=context, kv_cache_memory=None)
        ready = make_ready(file, config, own, backends)
        opened.pop_all()  # the drafter closes it
    known = min(tokenizer.vocab_size, vocabulary.vocab_size)
    kv = (*ready.kv.keys, *ready.kv.values, *ready.kv.states)
    used = sum(tensor.nbytes for tensor in file.tensors.values()) + sum(a.nbytes for a in kv)
    return DraftModel(ready.engine, tokenizer, known, file.close), used


@dataclass(frozen=True, eq=False)
class Ready:
    """All that steps need, without text: `engine` runs `program` with the storage `kv`.

    where: backend, device and split: what is computed elsewhere has other bits.
    """

    backend: str
    where: str
    kv_cache_type: str
    limits: Limits
    program: Program
    kv: KVStorage
    engine: Engine


def make_ready(
    file: GGUFFile,
    config: ModelConfig,
    options: LoadOptions,
    backends: Backends,
    adapters: tuple[Adapter, ...] = (),
    drafters: tuple[Drafter, ...] = (),
) -> Ready:
    """Records the file's program and binds it to cache storage and one of the backends.

    drafters: guess tokens ahead; without any, each step computes one of each answer.
    Errors are those of load_model. The files must stay open until the engine is closed.
    """
    backend, types = _check(options)
    context = options.context_length or min(config.context_length, DEFAULT_CONTEXT)
    program = record(file, config, context, adapters)
    usable, sizes = _usable_memory(options.memory_limit), _sizes(file, config)
    if sizes.total >= usable:
        program = replace(program, experts_on_disk=True)
    limits = Limits(
        context_length=context,
        max_num_seqs=options.max_num_seqs,
        block_size=BLOCK_SIZE,
        token_budget=options.max_num_seqs
        + (_TOKEN_BUDGET if program.is_causal else max(_TOKEN_BUDGET, context)),
        max_logits_rows=max(1, _LOGITS_BYTES // (4 * program.vocab_size)),
        windows=tuple(group.window for group in program.kv_groups),
        is_causal=program.is_causal,
    )
    memory = Memory(usable, partial(_memory_for_cache, sizes, usable))
    try:
        bound = bind(backend, program, limits, types, options, backends, memory)
    except BackendError as error:
        if options.backend != "auto" or backend == "cpu":
            raise
        backends.note(f"{error}; running on the processor instead")
        backend = "cpu"
        bound = bind(backend, program, limits, types, options, backends, memory)
    pools = tuple(BlockPool(blocks) for blocks in bound.num_blocks)
    after_step = ColdExperts(file, usable).trim if program.experts_on_disk else None
    runner = ModelRunner(bound.executable, program, bound.store, after_step)
    states = BlockPool(bound.num_slots) if bound.num_slots else None
    speculation = Speculation(drafters, limits, states is not None) if drafters else None
    engine = Engine(runner, Scheduler(pools, limits, states, StepCost()), speculation)
    kv_cache_type = options.kv_cache_type or ROWS[backend].kv_cache_type
    return Ready(backend, bound.where, kv_cache_type, limits, program, bound.kv, engine)


def _usable_memory(memory_limit: int | None) -> int:
    usable = available_memory()
    return usable if memory_limit is None else min(usable, memory_limit)


def _sizes(file: GGUFFile, config: ModelConfig) -> ExpertBytes:
    experts = config.experts
    return expert_bytes(file, experts.count if experts else 0, experts.used if experts else 0)


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


def _check(options: LoadOptions) -> tuple[str, KVTypes]:
    """The backend meant and its cache types.

    RequestError or BackendError for an option that cannot be used.
    """
    for field in ("threads", "context_length", "memory_limit", "kv_cache_memory"):
        value = getattr(options, field)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise RequestError(f"{field} is {value!r}: at least 1 is expected", field)
    if not 1 <= options.max_num_seqs <= 256:
        raise RequestError(
            f"max_num_seqs is {options.max_num_seqs}: 1 to 256 is expected", "max_num_seqs"
        )
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
