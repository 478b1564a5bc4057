"""What tiny models share: settings, and shapes of tensors by published names. Holds no tests."""

from typing import Any

Shapes = dict[str, tuple[int, ...]]
Model = tuple[dict[str, Any], Shapes]

HIDDEN, FF, LAYERS, HEADS, KV_HEADS, DIM, VOCAB, EXPERTS = 32, 48, 2, 4, 2, 8, 64, 4
Q, KV = HEADS * DIM, KV_HEADS * DIM
BASE: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": FF,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "vocab_size": VOCAB,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
GPT: dict[str, Any] = {
    "n_embd": HIDDEN,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "n_positions": 64,
    "n_inner": FF,
    "vocab_size": VOCAB,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": False,
}
EVERY: Shapes = {
    "model.embed_tokens.weight": (VOCAB, HIDDEN),
    "model.norm.weight": (HIDDEN,),
    "lm_head.weight": (VOCAB, HIDDEN),
}
ATTENTION: Shapes = {
    "self_attn.q_proj.weight": (Q, HIDDEN),
    "self_attn.k_proj.weight": (KV, HIDDEN),
    "self_attn.v_proj.weight": (KV, HIDDEN),
    "self_attn.o_proj.weight": (HIDDEN, Q),
}
NORMS: Shapes = {"input_layernorm.weight": (HIDDEN,), "post_attention_layernorm.weight": (HIDDEN,)}
QK_NORMS: Shapes = {"self_attn.q_norm.weight": (DIM,), "self_attn.k_norm.weight": (DIM,)}


def linear(name: str, rows: int, columns: int = HIDDEN) -> Shapes:
    """A matrix with a bias."""
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def norm(name: str) -> Shapes:
    """A layer norm."""
    return {f"{name}.weight": (HIDDEN,), f"{name}.bias": (HIDDEN,)}


def gated(name: str, width: int = FF, parts: str = "gate_proj up_proj down_proj") -> Shapes:
    """A feed-forward block with a gate: the names of gate, up and down."""
    gate, up, down = parts.split()
    return {
        f"{name}.{gate}.weight": (width, HIDDEN),
        f"{name}.{up}.weight": (width, HIDDEN),
        f"{name}.{down}.weight": (HIDDEN, width),
    }


def experts(name: str, parts: str = "gate_proj up_proj down_proj", count: int = EXPERTS) -> Shapes:
    found: Shapes = {}
    for i in range(count):
        found |= gated(f"{name}.{i}", FF, parts)
    return found


def layers(shapes: Shapes, prefix: str = "model.layers", which: range = range(LAYERS)) -> Shapes:
    return {f"{prefix}.{i}.{name}": shape for i in which for name, shape in shapes.items()}


LLAMA: Shapes = EVERY | layers(ATTENTION | NORMS | gated("mlp"))
MOE: dict[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": FF}
NOPE, ROPE, KV_RANK, VALUE = 8, 4, 16, 6
MLA: dict[str, Any] = {
    "qk_nope_head_dim": NOPE,
    "qk_rope_head_dim": ROPE,
    "kv_lora_rank": KV_RANK,
    "v_head_dim": VALUE,
}
