"""Outlines of models that mixtures treat differently: keys and matrices without numbers. Holds no
tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgellm.gguf_loader import NewTensor, NewValue, entry, write_header
from edgellm.kernels.formats import by_name

WIDTH = 256
_DENSE = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
_FALCON = ("attn_qkv", "attn_output", "ffn_up", "ffn_down")
_MOE = (*_DENSE[:4], "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
_SHARED = (*_MOE, "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")


@dataclass(frozen=True)
class Outline:
    """heads: of queries, and of keys. experts: of a layer. tied: no matrix of its own for logits.
    columns: of matrices."""

    architecture: str
    layers: int
    heads: tuple[int, int]
    parts: tuple[str, ...] = _DENSE
    experts: int = 0
    tied: bool = False
    columns: int = WIDTH
    keys: Mapping[str, Any] = field(default_factory=dict)


OUTLINES: Mapping[str, Outline] = {
    "llama": Outline("llama", 16, (8, 8)),
    "llama of 4 heads for one of keys": Outline("llama", 32, (32, 8)),
    "llama of 8 heads for one of keys": Outline("llama", 22, (64, 8)),
    "llama of 70B": Outline("llama", 80, (64, 8)),
    "llama of 65B": Outline("llama", 80, (64, 64)),
    "qwen2 of 72B": Outline("qwen2", 80, (64, 8)),
    "mixtral": Outline("llama", 32, (32, 8), _MOE, 8),
    "sixty experts and one for all": Outline("qwen2moe", 24, (16, 16), _SHARED, 60),
    "falcon": Outline("falcon", 32, (8, 1), _FALCON),
    "gemma": Outline("gemma", 18, (8, 1), tied=True),
    "narrow gemma3": Outline("gemma3", 26, (4, 1), tied=True, columns=288),
}


def write_outline(path: Path, outline: Outline) -> Path:
    """A file that loaders take for a model, whose numbers are all zero."""
    a, (heads, kv_heads) = outline.architecture, outline.heads
    keys: dict[str, NewValue] = {
        "general.architecture": a,
        f"{a}.block_count": outline.layers,
        f"{a}.context_length": 64,
        f"{a}.embedding_length": outline.columns,
        f"{a}.feed_forward_length": 2 * outline.columns,
        f"{a}.attention.head_count": heads,
        f"{a}.attention.head_count_kv": kv_heads,
        f"{a}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{a}.attention.layer_norm_epsilon": 1e-5,
        f"{a}.attention.sliding_window": 16,
    }
    if outline.experts:
        keys |= {f"{a}.expert_count": outline.experts, f"{a}.expert_used_count": 2}
    kind = by_name("F16").type_id
    ends = ("token_embd",) if outline.tied else ("token_embd", "output")
    tensors = [NewTensor(f"{name}.weight", (outline.columns, 4), kind) for name in ends]
    for i in range(outline.layers):
        for part in outline.parts:
            stack = (outline.experts,) if part.endswith("_exps") else ()
            shape = (outline.columns, 4, *stack)
            tensors.append(NewTensor(f"blk.{i}.{part}.weight", shape, kind))
    write_header(path, [entry(key, value) for key, value in keys.items()], tensors, {})
    return path


def runs(types: Mapping[str, str]) -> dict[str, str]:
    """By kind of tensor its types over the layers, as "2 Q6_K, 4 Q4_K"."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name, one in types.items():
        kind = name.split(".", 2)[-1].removesuffix(".weight") if "blk." in name else name[:-7]
        listed = found.setdefault(kind, [])
        if listed and listed[-1][1] == one:
            listed[-1] = (listed[-1][0] + 1, one)
        else:
            listed.append((1, one))
    return {kind: ", ".join(f"{n} {one}" for n, one in each) for kind, each in found.items()}
