"""Tiny random models, one recipe per architecture row. Holds no tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgellm.kernels.formats import by_name, quantize_rows
from edgellm.models import ARCHITECTURES
from tests.gguf_writer import Tensor, write_gguf
from tests.models.recipes import RECIPES
from tests.models.recipes.parts import (
    CONTEXT,
    FF,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    VOCAB,
    WINDOW,
    Shapes,
)


def metadata(name: str) -> dict[str, Any]:
    """Keys of a tiny model of architecture `name`."""
    keys = {
        "block_count": LAYERS,
        "context_length": CONTEXT,
        "embedding_length": HIDDEN,
        "feed_forward_length": FF,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "attention.layer_norm_epsilon": 1e-5,
        "attention.sliding_window": WINDOW,
        "rope.freq_base": 50000.0,
    }
    keys |= RECIPES[name].keys
    own = {f"{name}.{k}": v for k, v in keys.items()}
    return {"general.architecture": name, **own, **RECIPES[name].bare_keys}


def shapes(name: str) -> Shapes:
    """All tensors of a tiny model; most have no output matrix: it is tied."""
    layers = {
        f"{ARCHITECTURES[name].part}blk.{layer}.{part}": shape
        for layer in range(LAYERS)
        for part, shape in RECIPES[name].other.get(layer, RECIPES[name].layer).items()
    }
    return {"token_embd.weight": (HIDDEN, VOCAB), **RECIPES[name].top, **layers}


def random_tensor(name: str, shape: tuple[int, ...], format_name: str | None = None) -> Tensor:
    """Matrices in Q8_0 unless told; vectors and routers F32. The same numbers for every call."""
    rng = np.random.default_rng(list(name.encode()))
    values = rng.normal(size=(int(np.prod(shape[1:])), shape[0])).astype(np.float32)
    if name.endswith(("norm.weight", "norm_2.weight")):
        values = values * 0.1 + 1
    else:
        values *= shape[0] ** -0.5 if len(shape) > 1 else 0.3
    if name.endswith(("rope_freqs.weight", "output_scale.weight")):
        values = 1 + np.abs(values)
    if name.endswith("ssm_a"):
        values = -np.abs(values)  # states decay
    small = name.endswith(("norm.weight", ".bias")) or "ffn_gate_inp" in name
    plain = small or len(shape) == 1 or shape[0] % 32 > 0
    fmt = by_name(format_name or ("F32" if plain else "Q8_0"))
    return name, shape, fmt.type_id, quantize_rows(fmt, values)


Edit = Callable[[dict[str, Any], list[Tensor]], object]


def write_tiny(
    folder: Path, name: str, edit: Edit | None = None, format_name: str | None = None
) -> Path:
    """A model file; `edit` may change its metadata and its list of tensors first.

    format_name: of all matrices, Q8_0 unless told.
    """
    keys = metadata(name)
    tensors = [random_tensor(t, shape, format_name) for t, shape in shapes(name).items()]
    if edit is not None:
        edit(keys, tensors)
    return write_gguf(folder / f"{name}-{format_name}.gguf", keys, tensors)
