"""Tiny random models, one recipe per architecture row. Holds no tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edgellm.kernels.formats import by_name, quantize_rows
from tests.gguf_writer import Tensor, write_gguf

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FF, VOCAB, WINDOW = 6, 64, 4, 2, 32, 96, 40, 8
EXPERTS, EXPERTS_USED, CONTEXT = 3, 2, 128

Shapes = dict[str, tuple[int, ...]]  # name without "blk.N." or suffix -> ggml shape

ATTENTION: Shapes = {
    "attn_norm.weight": (HIDDEN,),
    "attn_q.weight": (HIDDEN, HEADS * HEAD_DIM),
    "attn_k.weight": (HIDDEN, KV_HEADS * HEAD_DIM),
    "attn_v.weight": (HIDDEN, KV_HEADS * HEAD_DIM),
    "attn_output.weight": (HEADS * HEAD_DIM, HIDDEN),
}
QKV_BIAS: Shapes = {
    "attn_q.bias": (HEADS * HEAD_DIM,),
    "attn_k.bias": (KV_HEADS * HEAD_DIM,),
    "attn_v.bias": (KV_HEADS * HEAD_DIM,),
}
QK_NORM: Shapes = {"attn_q_norm.weight": (HEAD_DIM,), "attn_k_norm.weight": (HEAD_DIM,)}
MLP: Shapes = {
    "ffn_norm.weight": (HIDDEN,),
    "ffn_gate.weight": (HIDDEN, FF),
    "ffn_up.weight": (HIDDEN, FF),
    "ffn_down.weight": (FF, HIDDEN),
}
EXPERT_MLP: Shapes = {
    "ffn_gate_inp.weight": (HIDDEN, EXPERTS),
    "ffn_gate_exps.weight": (HIDDEN, FF, EXPERTS),
    "ffn_up_exps.weight": (HIDDEN, FF, EXPERTS),
    "ffn_down_exps.weight": (FF, HIDDEN, EXPERTS),
}
EXPERT_BIAS: Shapes = {
    "ffn_gate_inp.bias": (EXPERTS,),
    "ffn_gate_exps.bias": (FF, EXPERTS),
    "ffn_up_exps.bias": (FF, EXPERTS),
    "ffn_down_exps.bias": (HIDDEN, EXPERTS),
}
POST_NORMS: Shapes = {"post_attention_norm.weight": (HIDDEN,), "post_ffw_norm.weight": (HIDDEN,)}

RECIPES: dict[str, Shapes] = {
    "llama": {**ATTENTION, **MLP},
    "qwen2": {**ATTENTION, **QKV_BIAS, **MLP},
    "gemma3": {**ATTENTION, **QK_NORM, **MLP, **POST_NORMS},
    "gpt-oss": {
        **ATTENTION,
        **QKV_BIAS,
        "attn_output.bias": (HIDDEN,),
        "attn_sinks.weight": (HEADS,),
        "post_attention_norm.weight": (HIDDEN,),
        **EXPERT_MLP,
        **EXPERT_BIAS,
    },
}


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
        "attention.sliding_window": WINDOW,
        "rope.freq_base": 50000.0,
    }
    if "ffn_gate_inp.weight" in RECIPES[name]:
        keys |= {"expert_count": EXPERTS, "expert_used_count": EXPERTS_USED}
    return {"general.architecture": name, **{f"{name}.{k}": v for k, v in keys.items()}}


def shapes(name: str) -> Shapes:
    """All tensors of a tiny model, without an output matrix: it is tied."""
    layers = {
        f"blk.{layer}.{part}": shape
        for layer in range(LAYERS)
        for part, shape in RECIPES[name].items()
    }
    return {"token_embd.weight": (HIDDEN, VOCAB), "output_norm.weight": (HIDDEN,), **layers}


def random_tensor(name: str, shape: tuple[int, ...], format_name: str | None = None) -> Tensor:
    """Matrices in Q8_0 unless told; vectors and routers F32. The same numbers for every call."""
    rng = np.random.default_rng(list(name.encode()))
    values = rng.normal(size=(int(np.prod(shape[1:])), shape[0])).astype(np.float32)
    if name.endswith("norm.weight"):
        values = values * 0.1 + 1
    else:
        values *= shape[0] ** -0.5 if len(shape) > 1 else 0.3
    plain = len(shape) == 1 or name.endswith(".bias") or "ffn_gate_inp" in name
    fmt = by_name(format_name or ("F32" if plain else "Q8_0"))
    return name, shape, fmt.type_id, quantize_rows(fmt, values)


Edit = Callable[[dict[str, Any], list[Tensor]], object]


def write_tiny(folder: Path, name: str, edit: Edit | None = None) -> Path:
    """A model file; `edit` may change its metadata and its list of tensors first."""
    keys = metadata(name)
    tensors = [random_tensor(t, shape) for t, shape in shapes(name).items()]
    if edit is not None:
        edit(keys, tensors)
    return write_gguf(folder / f"{name}.gguf", keys, tensors)
