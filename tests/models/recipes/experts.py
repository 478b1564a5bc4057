"""Recipes of decoders with experts. Holds no tests."""

from tests.models.recipes.parts import (
    ATTENTION,
    EXPERT_BIAS,
    EXPERT_KEYS,
    EXPERT_MLP,
    HEADS,
    HIDDEN,
    QKV,
    Recipe,
    biases,
)

RECIPES: dict[str, Recipe] = {
    "gpt-oss": Recipe(
        {
            **ATTENTION,
            **biases(QKV),
            "attn_output.bias": (HIDDEN,),
            "attn_sinks.weight": (HEADS,),
            "post_attention_norm.weight": (HIDDEN,),
            **EXPERT_MLP,
            **EXPERT_BIAS,
        },
        keys=EXPERT_KEYS,
        windowed=(True, False) * 3,
    ),
}
