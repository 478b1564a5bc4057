"""What a model file holds and the memory it needs, from its metadata and tensor table alone.

Works for any GGUF model, also one whose architecture edgellm cannot run. Reads no tensor data.
"""

import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from edgellm.cold_experts import expert_names
from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile, TensorInfo
from edgellm.models.architecture import Architecture
from edgellm.models.registry import ARCHITECTURES
from edgellm.types import DEFAULT_CONTEXT

_KV_BYTES = 2  # f16
_MAX_LAYERS = 4096
_CHANNEL_MIX = "channel_mix_lerp_k.weight", "channel_mix_lerp_r.weight"
_CONVOLUTION = re.compile(r"(ssm_conv1d(_[qkv])?|shortconv\.conv)\.weight")
_HEAD = re.compile(r"blk\.\d{1,4}\.nextn\.eh_proj\.weight")
_BLOCK = re.compile(r"blk\.(\d{1,4})\.(.+)")


@dataclass(frozen=True)
class TensorTypeUse:
    """All tensors of one type: their number, their weights and their bytes."""

    type: str
    tensors: int
    parameters: int
    bytes: int


@dataclass(frozen=True)
class TokenizerSummary:
    """model, pre: as the file names them."""

    model: str | None
    pre: str | None
    vocab_size: int


@dataclass(frozen=True)
class Memory:
    """Bytes to run one sequence of `context` tokens. kv_cache: keys and values in f16, windowed
    layers with their window only. states: what recurrent layers keep, whatever the context."""

    context: int
    weights: int
    kv_cache: int
    states: int
    total: int


@dataclass(frozen=True)
class ModelSummary:
    """supported: whether edgellm runs this architecture. active_parameters: what one token is
    multiplied by, of a mixture of experts those that it uses. chat_template: its first line with
    anything in it; None when the file has none. context_length: tokens it was trained for.
    mtp_heads: layers among all that predict further tokens; uses_mtp: whether the first of them may
    guess ahead."""

    path: str
    parts: int
    name: str | None
    architecture: str
    supported: bool
    license: str | None
    parameters: int
    active_parameters: int
    layers: int
    mtp_heads: int
    uses_mtp: bool
    context_length: int | None
    tensor_types: tuple[TensorTypeUse, ...]
    tokenizer: TokenizerSummary
    chat_template: str | None
    memory: Memory


def summarize(file: GGUFFile, context: int | None = None) -> ModelSummary:
    """Describes an opened file. context: tokens to reckon memory for; None: the default of load.

    Raises GGUFError when the metadata contradicts itself.
    """
    architecture = file.string("general.architecture")
    if architecture is None:
        raise GGUFError(f"{file.path}: general.architecture is missing: not a model")
    trained = file.integer(f"{architecture}.context_length")
    tokens = file.strings("tokenizer.ggml.tokens")
    template = file.string("tokenizer.chat_template")
    return ModelSummary(
        path=str(file.path),
        parts=len(file.parts),
        name=file.string("general.name"),
        architecture=architecture,
        supported=architecture in ARCHITECTURES,
        license=file.string("general.license"),
        parameters=file.num_parameters,
        active_parameters=_active_parameters(file, architecture),
        layers=_layers(file, architecture),
        mtp_heads=sum(_HEAD.fullmatch(name) is not None for name in file.tensors),
        uses_mtp=_uses_mtp(architecture),
        context_length=trained,
        tensor_types=_tensor_types(file),
        tokenizer=TokenizerSummary(
            model=file.string("tokenizer.ggml.model"),
            pre=file.string("tokenizer.ggml.pre"),
            vocab_size=0 if tokens is None else len(tokens),
        ),
        chat_template=_first_line(template),
        memory=_memory(
            file, architecture, context or min(trained or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
        ),
    )


def _uses_mtp(architecture: str) -> bool:
    row = ARCHITECTURES.get(architecture)
    return row is not None and row.mtp_reads is not None


def _active_parameters(file: GGUFFile, architecture: str) -> int:
    count = file.integer(f"{architecture}.expert_count") or 0
    stored = file.metadata.get(f"{architecture}.expert_used_count")
    layers = len(stored) if isinstance(stored, np.ndarray) else 1
    used = _per_layer(file, architecture, "expert_used_count", layers) or [0]
    active = file.num_parameters
    for name in expert_names(file):
        found = _BLOCK.fullmatch(name)
        share = used[min(int(found[1]) if found else 0, len(used) - 1)]
        if 0 < share <= count:
            active -= file.tensors[name].num_elements * (count - share) // count
    return active


def _tensor_types(file: GGUFFile) -> tuple[TensorTypeUse, ...]:
    by_type: dict[str, list[TensorInfo]] = defaultdict(list)
    for tensor in file.tensors.values():
        by_type[tensor.type_name].append(tensor)
    uses = [
        TensorTypeUse(
            type=name,
            tensors=len(tensors),
            parameters=sum(tensor.num_elements for tensor in tensors),
            bytes=sum(tensor.nbytes for tensor in tensors),
        )
        for name, tensors in by_type.items()
    ]
    return tuple(sorted(uses, key=lambda use: -use.bytes))


def _memory(file: GGUFFile, architecture: str, context: int) -> Memory:
    weights = file.num_bytes
    kv_cache = sum(
        width * min(context, window or context) * _KV_BYTES
        for width, window in zip(
            _kv_widths(file, architecture), _windows(file, architecture), strict=True
        )
    )
    states = _state_bytes(file, architecture)
    return Memory(
        context=context,
        weights=weights,
        kv_cache=kv_cache,
        states=states,
        total=weights + kv_cache + states,
    )


def _state_bytes(file: GGUFFile, architecture: str) -> int:
    """float32: the rows that convolutions look back on, and a matrix for each head."""
    inner, size, kda, wkv = (
        file.integer(f"{architecture}.{key}") or 0
        for key in ("ssm.inner_size", "ssm.state_size", "kda.head_dim", "wkv.head_size")
    )
    mixes_once = "blk.0.time_mix_lerp_x.weight" in file.tensors
    numbers = 0
    for tensor in file.tensors.values():
        found = _BLOCK.fullmatch(tensor.name)
        part = found[2] if found else ""
        if _CONVOLUTION.fullmatch(part):
            numbers += tensor.num_elements - tensor.num_elements // max(1, tensor.columns)
        elif part == "ssm_a":
            numbers += inner * size
        elif part == "ssm_dt.bias":
            numbers += tensor.num_elements * kda
        elif part == "time_mix_receptance.weight":
            numbers += tensor.rows * wkv
        elif part in ("time_mix_lerp_x.weight", *_CHANNEL_MIX):  # a row back
            numbers += tensor.columns
        elif part == "time_mix_lerp_fused.weight" and not mixes_once:  # one for each part
            numbers += tensor.num_elements
    return 4 * numbers


def _layers(file: GGUFFile, architecture: str) -> int:
    layers = file.integer(f"{architecture}.block_count") or 0
    if not 0 <= layers <= _MAX_LAYERS:
        raise GGUFError(f"{file.path}: {architecture}.block_count is {layers}, expected a number")
    return layers


def _kv_widths(file: GGUFFile, architecture: str) -> list[int]:
    """Per layer, elements that one token adds to the cache; 0 for a layer without attention."""
    prefix = f"{architecture}.attention"
    layers = _layers(file, architecture)
    heads = _per_layer(file, architecture, "attention.head_count", layers)
    kv_heads = _per_layer(file, architecture, "attention.head_count_kv", layers) or heads
    if not any(heads):
        return [0] * layers
    hidden = file.integer(f"{architecture}.embedding_length") or 0
    head_dim = hidden // max(max(heads), 1)
    key = file.integer(f"{prefix}.key_length") or head_dim
    value = file.integer(f"{prefix}.value_length") or head_dim
    attends = _attending(file)
    return [kv_heads[layer] * (key + value) if layer in attends else 0 for layer in range(layers)]


def _attending(file: GGUFFile) -> set[int]:
    """The layers with keys and values: recurrent ones may have a fused projection, but with the
    tensors of a state beside it."""
    names: dict[int, set[str]] = defaultdict(set)
    for tensor in file.tensors:
        if found := _BLOCK.fullmatch(tensor):
            names[int(found[1])].add(found[2])
    return {
        layer
        for layer, own in names.items()
        if "attn_k.weight" in own
        or "attn_kv_a_mqa.weight" in own
        or ("attn_qkv.weight" in own and not any(name.startswith("ssm_") for name in own))
    }


def _windows(file: GGUFFile, architecture: str) -> list[int | None]:
    """Per layer, tokens that a windowed layer keeps; None for one that keeps all."""
    layers = _layers(file, architecture)
    row = ARCHITECTURES.get(architecture, Architecture(rope=None))
    window = file.integer(f"{architecture}.attention.sliding_window")
    window = (row.default_window if window is None else window) or None
    key = "attention.sliding_window_pattern"
    if isinstance(file.metadata.get(f"{architecture}.{key}"), np.ndarray):
        return [window if yes else None for yes in _per_layer(file, architecture, key, layers)]
    period = file.integer(f"{architecture}.{key}")
    return [window if row.is_windowed(layer, period) else None for layer in range(layers)]


def _per_layer(file: GGUFFile, architecture: str, key: str, layers: int) -> list[int]:
    """A number for each layer, given as one for all or as an array; empty when absent.

    Arrays may leave out the heads that predict further tokens: they are as the last layer.
    """
    name = f"{architecture}.{key}"
    value = file.metadata.get(name)
    if not isinstance(value, np.ndarray):
        number = file.integer(name)
        return [] if number is None else [number] * layers
    numbers = [int(n) for n in value[: layers + 1]]
    heads = file.integer(f"{architecture}.nextn_predict_layers") or 0
    if len(numbers) == layers - heads:
        numbers += numbers[-1:] * heads
    if len(numbers) != layers:
        raise GGUFError(f"{file.path}: {name} has {len(value)} values, expected {layers}")
    return numbers


def _first_line(template: str | None) -> str | None:
    if template is None:
        return None
    return next((line.strip() for line in template.splitlines() if line.strip()), "")
