"""Sizes of the tiny models, and the tensors that families share. Holds no tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FF, VOCAB, WINDOW = 6, 64, 4, 2, 32, 96, 40, 8
EXPERTS, EXPERTS_USED, CONTEXT = 3, 2, 128
Q_WIDTH, KV_WIDTH = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM

Shapes = dict[str, tuple[int, ...]]  # name without "blk.N." -> ggml shape


@dataclass(frozen=True)
class Recipe:
    """layer: tensors of each layer. top: those beside token_embd. keys: metadata beside what all
    have, without the architecture's name; bare_keys: those whose names have none. windowed: which
    of the layers that have keys see WINDOW of them only. other: tensors of the layers that have not
    those of `layer`.
    """

    layer: Shapes
    top: Shapes = field(default_factory=lambda: OUTPUT_NORM)
    keys: Mapping[str, Any] = field(default_factory=dict)
    bare_keys: Mapping[str, Any] = field(default_factory=dict)
    windowed: tuple[bool, ...] = (False,) * LAYERS
    other: Mapping[int, Shapes] = field(default_factory=dict)


def biases(shapes: Shapes) -> Shapes:
    """A bias for each matrix or norm."""
    return {name.replace(".weight", ".bias"): shape[-1:] for name, shape in shapes.items()}


def with_biases(shapes: Shapes) -> Shapes:
    return {**shapes, **biases(shapes)}


OUTPUT_NORM: Shapes = {"output_norm.weight": (HIDDEN,)}
ATTN_NORM: Shapes = {"attn_norm.weight": (HIDDEN,)}
FFN_NORM: Shapes = {"ffn_norm.weight": (HIDDEN,)}
QKV: Shapes = {
    "attn_q.weight": (HIDDEN, Q_WIDTH),
    "attn_k.weight": (HIDDEN, KV_WIDTH),
    "attn_v.weight": (HIDDEN, KV_WIDTH),
}
FUSED_QKV: Shapes = {"attn_qkv.weight": (HIDDEN, Q_WIDTH + 2 * KV_WIDTH)}
ATTN_OUTPUT: Shapes = {"attn_output.weight": (Q_WIDTH, HIDDEN)}
ATTENTION: Shapes = {**ATTN_NORM, **QKV, **ATTN_OUTPUT}
FUSED_ATTENTION: Shapes = {**ATTN_NORM, **FUSED_QKV, **ATTN_OUTPUT}
QK_NORM: Shapes = {"attn_q_norm.weight": (HEAD_DIM,), "attn_k_norm.weight": (HEAD_DIM,)}
QK_NORM_OF_EACH_HEAD: Shapes = {
    "attn_q_norm.weight": (HEAD_DIM, HEADS),
    "attn_k_norm.weight": (HEAD_DIM, KV_HEADS),
}
QK_NORM_OF_ROWS: Shapes = {"attn_q_norm.weight": (Q_WIDTH,), "attn_k_norm.weight": (KV_WIDTH,)}
GATE: Shapes = {"ffn_gate.weight": (HIDDEN, FF)}
UP_AND_DOWN: Shapes = {"ffn_up.weight": (HIDDEN, FF), "ffn_down.weight": (FF, HIDDEN)}
FUSED_UP_AND_DOWN: Shapes = {"ffn_up.weight": (HIDDEN, 2 * FF), "ffn_down.weight": (FF, HIDDEN)}
MLP: Shapes = {**FFN_NORM, **GATE, **UP_AND_DOWN}
PLAIN_MLP: Shapes = {**FFN_NORM, **UP_AND_DOWN}
FUSED_MLP: Shapes = {**FFN_NORM, **FUSED_UP_AND_DOWN}
POST_NORMS: Shapes = {"post_attention_norm.weight": (HIDDEN,), "post_ffw_norm.weight": (HIDDEN,)}
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
EXPERT_KEYS: Mapping[str, Any] = {"expert_count": EXPERTS, "expert_used_count": EXPERTS_USED}
