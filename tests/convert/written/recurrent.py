"""Tiny models that keep a state whose code is published beside their weights. Holds no tests.

Facts from each model's config.json and modelling code on huggingface.co.
"""

from collections.abc import Mapping

from tests.convert.written.parts import (
    BASE,
    DIM,
    EVERY,
    FF,
    HEADS,
    HIDDEN,
    KV,
    LAYERS,
    NORMS,
    VOCAB,
    Model,
    Q,
    Shapes,
    gated,
    layers,
    linear,
    norm,
)

_RWKV6_MIX = {
    **{f"time_maa_{n}": (1, 1, HIDDEN) for n in "xwkvrg"},
    "time_maa_w1": (HIDDEN, 5 * 32),
    "time_maa_w2": (5, 32, HIDDEN),
    "time_decay": (1, 1, HIDDEN),
    "time_decay_w1": (HIDDEN, 64),
    "time_decay_w2": (64, HIDDEN),
}
_RWKV6 = {
    **norm("ln1"),
    **norm("ln2"),
    **{f"attention.{name}": shape for name, shape in _RWKV6_MIX.items()},
    "attention.time_faaaa": (HEADS, DIM),
    **{f"attention.{n}.weight": (HIDDEN, HIDDEN) for n in ("receptance", "key", "value", "gate")},
    "attention.output.weight": (HIDDEN, HIDDEN),
    **norm("attention.ln_x"),
    "feed_forward.time_maa_k": (1, 1, HIDDEN),
    "feed_forward.time_maa_r": (1, 1, HIDDEN),
    "feed_forward.key.weight": (FF, HIDDEN),
    "feed_forward.receptance.weight": (HIDDEN, HIDDEN),
    "feed_forward.value.weight": (HIDDEN, FF),
}
_RWKV7_RANKS = {"w": 16, "a": 16, "v": 8, "g": 24}


def _rwkv7_lora(letter: str) -> Shapes:
    rank = _RWKV7_RANKS[letter]
    found: Shapes = {
        f"attn.{letter}_lora.lora.0.weight": (rank, HIDDEN),
        f"attn.{letter}_lora.lora.2.weight": (HIDDEN, rank),
    }
    return found if letter == "g" else found | {f"attn.{letter}_lora.lora.2.bias": (HIDDEN,)}


def _rwkv7(first: bool) -> Shapes:
    loras: Shapes = {}
    for letter in "wag" if first else "wavg":
        loras |= _rwkv7_lora(letter)
    return {
        **(norm("pre_norm") if first else {}),
        **norm("attn_norm"),
        **norm("ffn_norm"),
        **{f"attn.x_{n}": (1, 1, HIDDEN) for n in "rwkvag"},
        **loras,
        **{f"attn.{n}_proj.weight": (HIDDEN, HIDDEN) for n in "rkvo"},
        "attn.k_k": (HIDDEN,),
        "attn.k_a": (HIDDEN,),
        "attn.r_k": (HEADS, DIM),
        **norm("attn.g_norm"),
        "ffn.x_k": (HIDDEN,),
        "ffn.key.weight": (FF, HIDDEN),
        "ffn.value.weight": (HIDDEN, FF),
    }


_ARWKV7_RANKS = {"w": 64, "a": 64, "v": 32}


def _arwkv7() -> Shapes:
    """Without gates; each layer has what the first does not need."""
    loras: Shapes = {}
    for letter, rank in _ARWKV7_RANKS.items():
        loras |= {
            f"self_attn.time_mixer.{letter}0": (1, 1, HIDDEN),
            f"self_attn.time_mixer.{letter}1": (HIDDEN, rank),
            f"self_attn.time_mixer.{letter}2": (rank, HIDDEN),
        }
    mixer = {
        **{f"x_{n}": (1, 1, HIDDEN) for n in "rwkva"},
        **{f"{n}.weight": (HIDDEN, HIDDEN) for n in ("receptance", "key", "value", "output")},
        **{"k_k": (1, 1, HIDDEN), "k_a": (1, 1, HIDDEN), "r_k": (HEADS, DIM)},
    }
    return {
        **NORMS,
        **loras,
        **{f"self_attn.time_mixer.{name}": shape for name, shape in mixer.items()},
        **gated("mlp"),
    }


ROWS: Mapping[str, Model] = {
    "Rwkv6ForCausalLM": (
        {
            "hidden_size": HIDDEN,
            "attention_hidden_size": HIDDEN,
            "head_size": DIM,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": DIM,
            "intermediate_size": FF,
            "layer_norm_epsilon": 1e-5,
            "rescale_every": 1,
            "vocab_size": VOCAB,
            "tie_word_embeddings": False,
        },
        {
            "rwkv.embeddings.weight": (VOCAB, HIDDEN),
            **norm("rwkv.blocks.0.pre_ln"),
            **norm("rwkv.ln_out"),
            "head.weight": (VOCAB, HIDDEN),
        }
        | layers(_RWKV6, "rwkv.blocks"),
    ),
    "RWKV6Qwen2ForCausalLM": (
        {**BASE, "lora_rank_tokenshift": 32, "lora_rank_decay": 64},
        EVERY
        | layers(
            NORMS
            | gated("mlp")
            | {f"self_attn.{name}": shape for name, shape in _RWKV6_MIX.items()}
            | {
                **linear("self_attn.q_proj", Q),
                **linear("self_attn.k_proj", KV),
                **linear("self_attn.v_proj", KV),
                "self_attn.o_proj.weight": (HIDDEN, Q),
                "self_attn.gate.weight": (HIDDEN, HIDDEN),
            }
        ),
    ),
    "RWKV7ForCausalLM": (
        {
            "hidden_size": HIDDEN,
            "head_dim": DIM,
            "num_hidden_layers": LAYERS,
            "intermediate_size": FF,
            "hidden_ratio": 4.0,
            "norm_eps": 1e-5,
            "decay_low_rank_dim": 16,
            "a_low_rank_dim": 16,
            "v_low_rank_dim": 8,
            "gate_low_rank_dim": 24,
            "vocab_size": VOCAB,
            "hidden_act": "sqrelu",
            "tie_word_embeddings": False,
        },
        {
            "model.embeddings.weight": (VOCAB, HIDDEN),
            **norm("model.norm"),
            "lm_head.weight": (VOCAB, HIDDEN),
        }
        | layers(_rwkv7(True), which=range(1))
        | layers(_rwkv7(False), which=range(1, 2)),
    ),
    "RwkvHybridForCausalLM": (
        {**BASE, "head_size": DIM, "wkv_has_gate": False, "wkv_version": 7},
        EVERY | layers(_arwkv7()),
    ),
}  # fmt: skip
