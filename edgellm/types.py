"""The data that crosses layers: what is asked, what comes back. Data only."""

import builtins
from collections.abc import Mapping, Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from edgellm.sampling_params import SamplingParams as SamplingParams

Priority = Literal["interactive", "background"]
FinishReason = Literal["stop", "length", "abort"]
Pooling = Literal["none", "mean", "cls", "last", "rank"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)  # in the order of llama.cpp's numbers

DEFAULT_CONTEXT = 8192  # tokens, where the model was trained for more


@dataclass(frozen=True)
class TokenLogprob:
    """One token with its natural-log probability under the unmodified distribution.

    0 for a token that was not drawn: the form asked for left no choice. bytes: what the token adds
    to the text, perhaps part of a character; top_bytes: the same of each in top.
    """

    token_id: int
    text: str
    logprob: float
    top: tuple[tuple[int, float], ...] = ()  # (token id, logprob), best first
    bytes: builtins.bytes = b""
    top_bytes: tuple[builtins.bytes, ...] = ()


@dataclass(frozen=True)
class Usage:
    """Token counts of one request.

    cached_tokens: those of the prompt that were found in the cache and not computed again.
    drafted_tokens: those of the answer that were guessed ahead, accepted_tokens: rightly.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0


@dataclass(frozen=True)
class Timings:
    """Wall time in seconds: waiting in the queue, until the first token, from first to last."""

    queued: float
    first_token: float
    decode: float


@dataclass(frozen=True)
class Request:
    """One generation asked of the engine.

    prompt: text, or token ids taken as they are. add_special, parse_special: how text is
    tokenised. model: a name, which is loaded if it must be; None is the only one. skip_special:
    control tokens of the answer are left out of its text, except those `shown`. priority: a
    background request lets interactive ones go first, though not for ever. adapters: the scales of
    the model's adapters by name, 0 for those left out; None: as the model was loaded. keep_alive:
    seconds that the model stays in memory unused after this, negative for ever; None: as it was.
    keep_prompt: the prompt stays in the cache however long it is not used, until the model goes or
    newer ones that are kept need its place: they take at most half of the cache. tells_progress:
    while the prompt is computed events without text say how far that is.
    """

    prompt: str | tuple[int, ...]
    params: SamplingParams = field(default_factory=SamplingParams)
    request_id: str | None = None
    model: str | None = None
    add_special: bool = True
    parse_special: bool = True
    skip_special: bool = True
    shown: tuple[int, ...] = ()
    priority: Priority = "interactive"
    adapters: Mapping[str, float] | None = None
    keep_alive: float | None = None
    keep_prompt: bool = False
    tells_progress: bool = False


@dataclass(frozen=True)
class Embedding:
    """What a model makes of a text: one row of length 1, the scores of a classifier's labels, or
    with pooling "none" a row for each token. Numbers are of float32.
    """

    num_tokens: int
    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Progress:
    """How much of a prompt of so many tokens is computed, with those found in the cache: `cached`.

    seconds: since the request began to run.
    """

    tokens: int
    computed: int
    cached: int
    seconds: float


@dataclass(frozen=True)
class TokenEvent:
    """New text of answer `index`; the last one has finish_reason, usage and timings.

    stop: the stop string that ended the answer. note: what a user should know of it. progress: of
    the prompt, before the first text.
    """

    index: int
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    stop: str | None = None
    note: str | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class ToolCall:
    """A function that an answer calls. arguments: the JSON text of an object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Completion:
    """A finished answer. With n > 1, `others` holds answers 1 to n-1.

    reasoning, tool_calls: of an answer to a chat; they are not in its text.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    logprobs: tuple[TokenLogprob, ...] | None
    usage: Usage
    timings: Timings
    others: tuple["Completion", ...] = ()
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


Message = Mapping[str, Any]  # {"role": ..., "content": ...} as in the OpenAI API
Messages = Seq[Message]


@dataclass(frozen=True)
class LoadOptions:
    """How a model is loaded; what `edgellm.load` takes, and what every front end offers.

    backend: auto, cpu, opencl or reference. device: of opencl, a number in the list of `edgellm
    doctor` or a part of its name. gpu_layers: so many of the last layers, and what follows them,
    run on that device and the others on the processor; auto is as many as fit. threads,
    context_length (tokens), memory_limit (bytes, of weights and cache together), kv_cache_memory
    (bytes, of the cache alone, where prompts that come again are found): None is chosen from the
    machine and the model. kv_cache_type:
    f32, f16, q8_0, q4_0, or "K/V" for each apart. max_num_seqs: answers computed side by side.
    adapters: LoRA and control vector files, each FILE or FILE:SCALE. draft: the name or file of a
    smaller model with the same tokens, which guesses ahead.
    """

    backend: str = "auto"
    device: str | None = None
    gpu_layers: int | Literal["auto"] = "auto"
    threads: int | None = None
    context_length: int | None = None
    kv_cache_type: str | None = None
    draft: str | None = None
    adapters: tuple[str, ...] = ()
    max_num_seqs: int = 8
    memory_limit: int | None = None
    kv_cache_memory: int | None = None


@dataclass(frozen=True)
class AdapterInfo:
    """A low-rank adapter or control vector of a loaded model. scale: for requests that say none."""

    name: str
    path: str
    scale: float = 1.0


@dataclass(frozen=True)
class ModelInfo:
    """One loaded model. kv_cache_bytes: what its keys and values may grow to. max_num_seqs:
    answers computed side by side. adapters: that requests may scale. generates: False for models
    that only embed. pooling: how embeddings are made unless told; "rank": it scores pairs of texts.

    sampling: fields of SamplingParams that the file or the catalogue advises. expires: seconds
    since 1970 until it goes if nobody uses it; None: it stays.
    """

    name: str
    path: str
    architecture: str
    backend: str
    context_length: int
    vocab_size: int
    kv_cache_bytes: int
    sampling: Mapping[str, Any] = field(default_factory=dict)
    max_num_seqs: int = 1
    adapters: tuple[AdapterInfo, ...] = ()
    generates: bool = True
    pooling: Pooling = "last"
    expires: float | None = None

    @property
    def adapter_scales(self) -> tuple[float, ...]:
        """How much of its adapters is taken where a request does not say."""
        return tuple(adapter.scale for adapter in self.adapters)


@dataclass(frozen=True)
class ModelDetails:
    """More of a loaded model, for front ends that report it.

    chat_template: its Jinja source; tool_template: that of the variant for tools, where it has one.
    control_marks: ids of the control tokens that may mark calls and reasoning, by their text. fim:
    fill-in-the-middle token ids by role (prefix, suffix, middle, pad, repository, file_separator),
    those that the model has. eog_ids: tokens that end a generation. size: bytes of all tensors.
    quantization: the type that most weights have. trained_context: tokens; hidden_size: elements;
    None where the file does not say. tokenizer: the file's name for its kind.
    """

    name: str
    architecture: str
    chat_template: str
    bos_text: str
    eos_text: str
    bos_id: int | None
    add_bos: bool
    eog_ids: tuple[int, ...]
    fim: Mapping[str, int]
    parameters: int
    size: int
    quantization: str
    trained_context: int | None
    hidden_size: int | None
    tool_template: str | None = None
    tokenizer: str = "none"
    control_marks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Stats:
    """What one model's engine has done and is doing. tokens_computed: rows, of prompts and answers;
    tokens_generated: those of answers."""

    running: int
    waiting: int
    steps: int
    tokens_computed: int
    tokens_generated: int
    blocks_free: tuple[int, ...]  # per KV group
    blocks: tuple[int, ...] = ()  # per KV group, free or not


@dataclass(frozen=True)
class SessionInfo:
    """A saved session. num_tokens, num_bytes (on disk); saved: seconds since 1970."""

    name: str
    model: str
    num_tokens: int
    num_bytes: int
    saved: float


@dataclass(frozen=True)
class Session:
    """A session that was restored: its tokens, of which the first num_cached are in the cache.

    messages: the conversation, where it was saved with one.
    """

    name: str
    token_ids: tuple[int, ...]
    num_cached: int
    messages: tuple[Message, ...] = ()
