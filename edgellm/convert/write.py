"""Writes a checkpoint as a GGUF file: names and shapes checked, tensors by strips of rows."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgellm.convert.checkpoint import Checkpoint
from edgellm.convert.families import FAMILIES, Family, rotated_pairs, settings_of
from edgellm.convert.safetensors import Stored
from edgellm.convert.settings import Settings
from edgellm.convert.vocabulary import vocabulary
from edgellm.errors import GGUFError, RequestError
from edgellm.gguf_loader import NewTensor, NewValue, entry, write_gguf
from edgellm.kernels.formats import by_name, dequantize_rows, quantize_rows

Rows = npt.NDArray[np.intp]
Shape = tuple[int, ...]
Watch = Callable[[int, int, str], None]  # (tensors done, tensors in all, name)

AUTO = "auto"
FILE_TYPES = {"F32": 0, "F16": 1, "BF16": 32, "Q8_0": 7}
_FLOATS = ("F32", "F16", "BF16")
_STRIP = 1 << 20  # weights converted at a time
_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_SKIPPED = ("rotary_emb.inv_freq",)


@dataclass(frozen=True, eq=False)
class _Tensor:
    """A tensor to be written. rows: the order of the stored ones, if it is another. shift: is
    added to each number."""

    name: str
    stored: Stored
    type: str
    rows: Rows | None = None
    shift: float = 0.0


def write_converted(
    checkpoint: Checkpoint,
    path: Path,
    type_name: str = AUTO,
    rule: str | None = None,
    replace: bool = False,
    watch: Watch | None = None,
) -> int:
    """Writes the file and returns its size.

    type_name: of matrices, one of FILE_TYPES, or AUTO for what they are stored in; vectors are F32.
    rule: the pre-tokenizer's, where it cannot be told. GGUFError for the folder, RequestError for
    what cannot be done.
    """
    family = _family(checkpoint)
    config_path = checkpoint.folder / "config.json"
    values = {**family.defaults, **settings_of(family, checkpoint.config)}
    settings = Settings(config_path, values)
    tensors = _tensors(checkpoint, family, settings, type_name)
    keys: dict[str, NewValue] = {
        "general.architecture": family.architecture,
        "general.type": "model",
        "general.name": checkpoint.folder.resolve().name,
        "general.file_type": FILE_TYPES[tensors[0].type],
        "general.quantization_version": 2,
    }
    own = {**settings.common(), **family.keys(settings)}
    keys |= {f"{family.architecture}.{name}": value for name, value in own.items()}
    keys |= vocabulary(checkpoint.folder, settings.integer("vocab_size"), rule)
    new = [NewTensor(t.name, t.stored.shape[::-1], by_name(t.type).type_id) for t in tensors]
    data = _data(tensors, watch)
    factors = settings.rope_factors()
    if factors is not None:
        new.append(NewTensor("rope_freqs.weight", factors.shape, by_name("F32").type_id))
        data = _with(data, factors.astype("<f4").view(np.uint8))
    entries = [entry(key, value) for key, value in keys.items()]
    return write_gguf(path, entries, new, data, replace=replace)


def _family(checkpoint: Checkpoint) -> Family:
    names = checkpoint.config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else "model of no architecture"
    if name not in FAMILIES:
        raise RequestError(
            f"{checkpoint.folder}: holds a {name}, which cannot be converted yet: one of "
            f"{', '.join(FAMILIES)} is expected",
            "folder",
        )
    quantised = checkpoint.config.get("quantization_config")
    if quantised is not None:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        raise RequestError(
            f"{checkpoint.folder}: is quantised ({method}), which cannot be converted yet: take "
            "the checkpoint that it was made from",
            "folder",
        )
    return FAMILIES[name]


def _tensors(
    checkpoint: Checkpoint, family: Family, settings: Settings, type_name: str
) -> list[_Tensor]:
    """The tensors in the order of layers, embeddings first."""
    translate = _names(family.architecture, settings.integer("num_hidden_layers"))
    found: dict[str, Stored] = {}
    for name, stored in checkpoint.tensors.items():
        if name.startswith(family.left) or name.endswith(_SKIPPED):
            continue
        if settings.tied and name.endswith("lm_head.weight"):
            continue
        new = translate(name.replace("language_model.", "", 1))
        if new is None:
            raise GGUFError(
                f"{stored.path}: the tensor {name!r} has no place in {family.architecture}"
            )
        found[new] = stored
    _check(checkpoint.folder, found, settings)
    heads = {"attn_q": settings.heads, "attn_k": settings.kv_heads}
    tensors = []
    for name in sorted(found, key=_place):
        stored = found[name]
        rows, part = None, name.split(".")[-2]
        if family.pairs and part in heads:
            rows = rotated_pairs(stored.shape[0], heads[part])
        shift = family.norm_shift if name.endswith("norm.weight") else 0.0
        tensors.append(_Tensor(name, stored, _type(stored, type_name), rows, shift))
    return tensors


def _names(architecture: str, layers: int) -> Callable[[str], str | None]:
    """From a checkpoint's names of tensors to GGUF's, None for one without."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map  # takes a while

    arch = next(arch for arch, name in MODEL_ARCH_NAMES.items() if name == architecture)
    known = get_tensor_name_map(arch, layers)

    def translate(name: str) -> str | None:
        new: str | None = known.get_name(name, try_suffixes=(".weight", ".bias"))
        return new

    return translate


def _place(name: str) -> tuple[int, int, str]:
    layer = _LAYER.match(name)
    if layer:
        return 1, int(layer[1]), layer[2]
    return (0 if name == "token_embd.weight" else 2), 0, name


def _type(stored: Stored, type_name: str) -> str:
    if stored.dtype not in _FLOATS:
        raise RequestError(
            f"{stored.path}: tensor {stored.name!r} is {stored.dtype}, expected one of "
            f"{', '.join(_FLOATS)}",
            "folder",
        )
    if len(stored.shape) < 2:
        return "F32"
    wanted = stored.dtype if type_name == AUTO else type_name
    return wanted if stored.shape[-1] % by_name(wanted).block_size == 0 else "F16"


def _check(folder: Path, found: Mapping[str, Stored], settings: Settings) -> None:
    """Every tensor is there and of the shape that the settings say; GGUFError names the first."""
    hidden, ff = settings.integer("hidden_size"), settings.integer("intermediate_size")
    queries = settings.heads * settings.head_dim
    keys = settings.kv_heads * settings.head_dim
    vocabulary_shape = (settings.integer("vocab_size"), hidden)
    top = {"token_embd.weight": vocabulary_shape, "output_norm.weight": (hidden,)}
    needed: dict[str, Shape] = {
        "attn_norm.weight": (hidden,),
        "attn_q.weight": (queries, hidden),
        "attn_k.weight": (keys, hidden),
        "attn_v.weight": (keys, hidden),
        "attn_output.weight": (hidden, queries),
        "ffn_norm.weight": (hidden,),
        "ffn_gate.weight": (ff, hidden),
        "ffn_up.weight": (ff, hidden),
        "ffn_down.weight": (hidden, ff),
    }
    known: dict[str, Shape] = {
        **needed,
        **{"attn_q_norm.weight": (settings.head_dim,), "attn_k_norm.weight": (settings.head_dim,)},
        **{"post_attention_norm.weight": (hidden,), "post_ffw_norm.weight": (hidden,)},
        **{name.replace("weight", "bias"): shape[:1] for name, shape in needed.items()},
    }
    parts = {match[2] for name in found if (match := _LAYER.match(name))}
    layers = range(settings.integer("num_hidden_layers"))
    # What one layer has, all have.
    expected: dict[str, Shape | None] = {
        **top,
        **{f"blk.{i}.{part}": known.get(part) for i in layers for part in needed.keys() | parts},
    }
    if "output.weight" in found:
        expected["output.weight"] = vocabulary_shape
    missing = sorted(expected.keys() - found.keys(), key=_place)
    if missing:
        raise GGUFError(f"{folder}: {len(missing)} tensors are missing, the first {missing[0]}")
    for name, stored in found.items():
        shape = expected.get(name)
        if shape is None:
            raise GGUFError(f"{stored.path}: tensor {stored.name!r} ({name}) is not expected")
        if stored.shape != shape:
            raise GGUFError(
                f"{stored.path}: tensor {stored.name!r} has the shape {stored.shape}, expected "
                f"{shape} by config.json"
            )


def _data(tensors: list[_Tensor], watch: Watch | None) -> Iterator[Iterator[npt.NDArray[np.uint8]]]:
    for done, tensor in enumerate(tensors):
        if watch:
            watch(done, len(tensors), tensor.name)
        yield _strips(tensor)
    if watch:
        watch(len(tensors), len(tensors), "")


def _with(
    data: Iterator[Iterator[npt.NDArray[np.uint8]]], last: npt.NDArray[np.uint8]
) -> Iterator[Iterator[npt.NDArray[np.uint8]]]:
    yield from data
    yield iter([last])


def _strips(tensor: _Tensor) -> Iterator[npt.NDArray[np.uint8]]:
    """The tensor's bytes in its new type, some rows at a time."""
    stored, source, target = tensor.stored, by_name(tensor.stored.dtype), by_name(tensor.type)
    columns = stored.shape[-1]
    height = max(1, _STRIP // columns)
    rows = stored.data.reshape(-1, columns * source.type_size)
    for start in range(0, len(rows), height):
        part = slice(start, start + height)
        strip = rows[part] if tensor.rows is None else rows[tensor.rows[part]]
        if source is not target or tensor.shift:
            values = dequantize_rows(source, strip) + np.float32(tensor.shift)
            strip = _quantised(tensor, values)
        yield np.ascontiguousarray(strip)


def _quantised(tensor: _Tensor, values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    target = by_name(tensor.type)
    try:
        blocks = quantize_rows(target, values)
    except ValueError as error:
        raise RequestError(f"tensor {tensor.name!r} to {tensor.type}: {error}", "type") from None
    if tensor.type == "F16" and not np.isfinite(blocks.view("<f2")).all():
        raise RequestError(
            f"tensor {tensor.name!r} holds numbers that F16 cannot: take BF16 or F32", "type"
        )
    return blocks
