"""Tiny random models with a head that predicts one token more. Holds no tests."""

from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats import by_id, dequantize_rows
from edgellm.models import ARCHITECTURES
from tests.gguf_writer import F32, Tensor
from tests.models.recipes.parts import HIDDEN, KV_HEADS, LAYERS, VOCAB, Shapes
from tests.models.tiny import random_tensor, shapes

Floats = npt.NDArray[np.float32]

HEADED = sorted(name for name, row in ARCHITECTURES.items() if row.mtp_reads is not None)
NEXTN: Shapes = {
    "nextn.eh_proj.weight": (2 * HIDDEN, HIDDEN),
    "nextn.enorm.weight": (HIDDEN,),
    "nextn.hnorm.weight": (HIDDEN,),
}
OWN_ENDS: Shapes = {
    "nextn.embed_tokens.weight": (HIDDEN, VOCAB),
    "nextn.shared_head_head.weight": (HIDDEN, VOCAB),
    "nextn.shared_head_norm.weight": (HIDDEN,),
}
_ATTENDS = "attn_output.weight"


def head_shapes(name: str, own_ends: bool = False) -> Shapes:
    """The tensors of the head of a tiny model: those of its last layer with attention, and more.

    own_ends: embedding, last norm and output matrix are the head's own.
    """
    known = shapes(name)
    layer = max(i for i in range(LAYERS) if f"blk.{i}.{_ATTENDS}" in known)
    prefix = f"blk.{layer}."
    block = {n.removeprefix(prefix): s for n, s in known.items() if n.startswith(prefix)}
    return {**block, **NEXTN, **(OWN_ENDS if own_ends else {})}


def add_head(keys: dict[str, Any], tensors: list[Tensor], own_ends: bool = False) -> None:
    """An edit for `write_tiny`: a head behind the layers."""
    name = keys["general.architecture"]
    keys[f"{name}.block_count"] = LAYERS + 1
    keys[f"{name}.nextn_predict_layers"] = 1
    kv_heads = f"{name}.attention.head_count_kv"
    if isinstance(keys[kv_heads], list):
        keys[kv_heads] = [*keys[kv_heads], KV_HEADS]
    for part, shape in head_shapes(name, own_ends).items():
        tensors.append(random_tensor(f"blk.{LAYERS}.{part}", shape))


def add_head_with_own_ends(keys: dict[str, Any], tensors: list[Tensor]) -> None:
    add_head(keys, tensors, own_ends=True)


def add_knowing_head(keys: dict[str, Any], tensors: list[Tensor]) -> None:
    """A head that says what the model says: the model's one layer that does anything, after an
    embedding whose rows all have the same length, so that its norm changes nothing."""
    add_head(keys, tensors)
    values = as_floats(tensors)
    rows = values["token_embd.weight"]
    rows /= np.sqrt((rows**2).mean(axis=1, keepdims=True))
    first, head = "blk.0.", f"blk.{LAYERS}."
    for name in values:
        if name.startswith("blk.") and ("attn_output" in name or "ffn_down" in name):
            values[name] *= name.startswith(first)
        if name.startswith(head) and "nextn" not in name:
            values[name][:] = values[name.replace(head, first)]
    values[f"{head}nextn.enorm.weight"][:] = 1
    values[f"{head}nextn.eh_proj.weight"][:] = np.eye(HIDDEN, 2 * HIDDEN)


def as_floats(tensors: list[Tensor]) -> dict[str, Floats]:
    """Makes all tensors F32; their numbers by name, (rows, columns), which may be changed."""
    values = {}
    for i, (name, shape, type_id, data) in enumerate(tensors):
        rows = np.asarray(data).reshape(-1, data.shape[-1])
        values[name] = np.array(dequantize_rows(by_id(type_id), rows))
        tensors[i] = name, shape, F32, values[name]
    return values
