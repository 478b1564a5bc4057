"""Recipes of encoders. Holds no tests."""

from tests.models.recipes.parts import (
    ATTENTION,
    ATTN_NORM,
    ATTN_OUTPUT,
    CONTEXT,
    EXPERT_KEYS,
    EXPERTS,
    FF,
    FUSED_ATTENTION,
    FUSED_MLP,
    FUSED_QKV,
    FUSED_UP_AND_DOWN,
    GATE,
    HEADS,
    HIDDEN,
    KV_WIDTH,
    LAYERS,
    MLP,
    PLAIN_MLP,
    POST_NORMS,
    Q_WIDTH,
    QK_NORM,
    QKV,
    UP_AND_DOWN,
    Recipe,
    Shapes,
    with_biases,
)

NORM: Shapes = with_biases({"token_embd_norm.weight": (HIDDEN,)})
TYPES: Shapes = {**NORM, "token_types.weight": (HIDDEN, 2)}
NORMED_SUMS: Shapes = with_biases(
    {"attn_output_norm.weight": (HIDDEN,), "layer_output_norm.weight": (HIDDEN,)}
)
BERT: Shapes = {**with_biases({**QKV, **ATTN_OUTPUT, **UP_AND_DOWN}), **NORMED_SUMS}
NOMIC: Shapes = {**FUSED_QKV, **ATTN_OUTPUT, **NORMED_SUMS, **GATE, **UP_AND_DOWN}
NOMIC_DENSE: Shapes = {
    **with_biases({**FUSED_QKV, **ATTN_OUTPUT, **UP_AND_DOWN}),
    **NORMED_SUMS,
}
NOMIC_EXPERTS: Shapes = {
    **with_biases({**FUSED_QKV, **ATTN_OUTPUT}),
    **NORMED_SUMS,
    "ffn_gate_inp.weight": (HIDDEN, EXPERTS),
    "ffn_up_exps.weight": (HIDDEN, FF, EXPERTS),
    "ffn_down_exps.weight": (FF, HIDDEN, EXPERTS),
}
JINA: Shapes = {
    **with_biases({**QKV, **ATTN_OUTPUT}),
    **with_biases({"attn_q_norm.weight": (Q_WIDTH,), "attn_k_norm.weight": (KV_WIDTH,)}),
    **with_biases({"attn_norm_2.weight": (HIDDEN,)}),
    **NORMED_SUMS,
    **GATE,
    **UP_AND_DOWN,
    "ffn_down.bias": (HIDDEN,),
}
MODERN: Shapes = {**FUSED_ATTENTION, "ffn_norm.weight": (HIDDEN,), **FUSED_UP_AND_DOWN}
FIRST_MODERN: Shapes = {n: shape for n, shape in MODERN.items() if n != "attn_norm.weight"}
LLAMA: Shapes = {**ATTENTION, **MLP}
T5: Shapes = {**ATTN_NORM, **QKV, "attn_o.weight": (Q_WIDTH, HIDDEN), **PLAIN_MLP}
GATED_T5: Shapes = {**T5, **GATE}
BIASES: Shapes = {"attn_rel_b.weight": (HEADS, 8)}

RECIPES: dict[str, Recipe] = {
    "bert": Recipe(BERT, {**TYPES, "position_embd.weight": (HIDDEN, CONTEXT)}),
    "eurobert": Recipe(LLAMA),
    "gemma-embedding": Recipe(
        {**LLAMA, **QK_NORM, **POST_NORMS}, windowed=(True, True, True, True, True, False)
    ),
    "jina-bert-v2": Recipe(JINA, TYPES),
    "jina-bert-v3": Recipe(NOMIC_DENSE, TYPES),
    "llama-embed": Recipe(LLAMA),
    "modern-bert": Recipe(
        MODERN,
        {"token_embd_norm.weight": (HIDDEN,), "output_norm.weight": (HIDDEN,)},
        windowed=(False, True, True, False, True, True),
        other={0: FIRST_MODERN},
    ),
    "nomic-bert": Recipe(NOMIC, TYPES),
    "neo-bert": Recipe({**FUSED_ATTENTION, **FUSED_MLP}, {"enc.output_norm.weight": (HIDDEN,)}),
    "nomic-bert-moe": Recipe(
        NOMIC_DENSE,
        TYPES,
        keys={**EXPERT_KEYS, "moe_every_n_layers": 2},
        other=dict.fromkeys(range(1, LAYERS, 2), NOMIC_EXPERTS),
    ),
    "t5": Recipe(
        T5,
        {
            "enc.output_norm.weight": (HIDDEN,),
            "dec.output_norm.weight": (HIDDEN,),
            "dec.blk.0.attn_q.weight": (HIDDEN, Q_WIDTH),
        },
        keys={"attention.relative_buckets_count": 8},
        windowed=(),
        other={0: {**T5, **BIASES}},
    ),
    "t5encoder": Recipe(
        {**GATED_T5, **BIASES},
        {"enc.output_norm.weight": (HIDDEN,)},
        keys={"attention.relative_buckets_count": 8},
        windowed=(),
    ),
}
