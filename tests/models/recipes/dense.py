"""Recipes of decoders without experts. Holds no tests."""

import numpy as np

from tests.models.recipes.parts import (
    ATTENTION,
    ATTN_NORM,
    ATTN_OUTPUT,
    CONTEXT,
    FF,
    FUSED_ATTENTION,
    FUSED_MLP,
    FUSED_QKV,
    GATE,
    HEAD_DIM,
    HIDDEN,
    LAYERS,
    MLP,
    OUTPUT_NORM,
    PLAIN_MLP,
    POST_NORMS,
    Q_WIDTH,
    QK_NORM,
    QK_NORM_OF_EACH_HEAD,
    QK_NORM_OF_ROWS,
    QKV,
    UP_AND_DOWN,
    VOCAB,
    Recipe,
    Shapes,
    biases,
    with_biases,
)

LLAMA: Shapes = {**ATTENTION, **MLP}
QWEN2: Shapes = {**LLAMA, **biases(QKV)}
QWEN3: Shapes = {**LLAMA, **QK_NORM}
GPT: Shapes = with_biases({**FUSED_ATTENTION, **PLAIN_MLP})
LAYER_NORM: Shapes = with_biases(OUTPUT_NORM)
POSITIONS: Shapes = {**LAYER_NORM, "position_embd.weight": (HIDDEN, CONTEXT)}
PARALLEL: Shapes = {**ATTENTION, **GATE, **UP_AND_DOWN}
NORMS_BEHIND: Shapes = {**QKV, **ATTN_OUTPUT, **GATE, **UP_AND_DOWN, **POST_NORMS}
EVERY_FOURTH_SEES_ALL = (True, True, True, False, True, True)

RECIPES: dict[str, Recipe] = {
    "llama": Recipe(LLAMA),
    "arcee": Recipe({**ATTENTION, **PLAIN_MLP}),
    "apertus": Recipe(
        {**ATTENTION, **QK_NORM, **PLAIN_MLP},
        bare_keys={
            "xielu.alpha_p": np.linspace(0.2, 1, LAYERS, dtype=np.float32),
            "xielu.alpha_n": np.linspace(-0.5, 1, LAYERS + 2, dtype=np.float32),
            "xielu.beta": 0.5,
        },
    ),
    "baichuan": Recipe(LLAMA, keys={"attention.max_alibi_bias": 8.0}),
    "bitnet": Recipe({**LLAMA, "attn_sub_norm.weight": (Q_WIDTH,), "ffn_sub_norm.weight": (FF,)}),
    "bloom": Recipe(GPT, {**LAYER_NORM, **with_biases({"token_embd_norm.weight": (HIDDEN,)})}),
    "chatglm": Recipe(
        {**FUSED_ATTENTION, **biases(FUSED_QKV), **FUSED_MLP}, keys={"rope.dimension_count": 16}
    ),
    "codeshell": Recipe(GPT, LAYER_NORM),
    "cohere2": Recipe(PARALLEL, keys={"logit_scale": 0.25}, windowed=EVERY_FOURTH_SEES_ALL),
    "command-r": Recipe({**PARALLEL, **QK_NORM_OF_EACH_HEAD}, keys={"logit_scale": 0.25}),
    "ernie4_5": Recipe(LLAMA),
    "exaone": Recipe(LLAMA),
    "exaone4": Recipe(
        {**NORMS_BEHIND, **QK_NORM},
        keys={"attention.sliding_window_pattern": 4},
        windowed=EVERY_FOURTH_SEES_ALL,
    ),
    "falcon": Recipe(
        {
            **with_biases({**ATTN_NORM, "attn_norm_2.weight": (HIDDEN,)}),
            **FUSED_QKV,
            **ATTN_OUTPUT,
            **UP_AND_DOWN,
        },
        LAYER_NORM,
    ),
    "gemma": Recipe(LLAMA),
    "gemma2": Recipe({**LLAMA, **POST_NORMS}, windowed=(True, False) * 3),
    "gemma3": Recipe({**QWEN3, **POST_NORMS}, windowed=(True,) * 5 + (False,)),
    "gemma4": Recipe(
        {
            **QWEN3,
            **POST_NORMS,
            "inp_gate.weight": (HIDDEN, 32),
            "proj.weight": (32, HIDDEN),
            "post_norm.weight": (HIDDEN,),
            "layer_output_scale.weight": (1,),
        },
        {
            **OUTPUT_NORM,
            "rope_freqs.weight": (HEAD_DIM // 2,),
            "per_layer_token_embd.weight": (32 * LAYERS, VOCAB),
            "per_layer_model_proj.weight": (HIDDEN, 32 * LAYERS),
            "per_layer_proj_norm.weight": (32,),
        },
        {
            "attention.sliding_window_pattern": 4,
            "attention.shared_kv_layers": 2,
            "embedding_length_per_layer_input": 32,
        },
        windowed=(True, True, True, False),
    ),
    "glm4": Recipe(
        {**ATTENTION, **biases(QKV), **FUSED_MLP, **POST_NORMS}, keys={"rope.dimension_count": 16}
    ),
    "gpt2": Recipe(GPT, POSITIONS),
    "gptneox": Recipe(GPT, LAYER_NORM, {"use_parallel_residual": True, "rope.dimension_count": 8}),
    "granite": Recipe(
        LLAMA,
        keys={
            "embedding_scale": 12.0,
            "residual_scale": 0.22,
            "logit_scale": 8.0,
            "attention.scale": 0.1,
        },
    ),
    "hunyuan-dense": Recipe(QWEN3),
    "internlm2": Recipe(LLAMA),
    "jais": Recipe(
        with_biases({**FUSED_ATTENTION, **MLP}),
        LAYER_NORM,
        {"attention.max_alibi_bias": 8.0},
    ),
    "jais2": Recipe(with_biases({**ATTENTION, **PLAIN_MLP}), LAYER_NORM),
    "minicpm": Recipe(LLAMA),
    "mistral3": Recipe(
        LLAMA,
        keys={
            "attention.temperature_scale": 0.1,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 16,
        },
    ),
    "mpt": Recipe(
        {**GPT, "ffn.act.scales": (FF,)},
        LAYER_NORM,
        {"attention.max_alibi_bias": 8.0, "attention.clamp_kqv": 1.5},
    ),
    "nemotron": Recipe(
        with_biases({**ATTENTION, **PLAIN_MLP}), LAYER_NORM, {"rope.dimension_count": 16}
    ),
    "olmo": Recipe({**QKV, **ATTN_OUTPUT, **GATE, **UP_AND_DOWN}, {}, {"attention.clamp_kqv": 1.5}),
    "olmo2": Recipe({**NORMS_BEHIND, **QK_NORM_OF_ROWS}, windowed=EVERY_FOURTH_SEES_ALL),
    "openelm": Recipe({**FUSED_ATTENTION, **QK_NORM, **MLP}),
    "orion": Recipe(
        {**LLAMA, **with_biases({**ATTN_NORM, "ffn_norm.weight": (HIDDEN,)})}, LAYER_NORM
    ),
    "pangu-embedded": Recipe({**QWEN2, "attn_output.bias": (HIDDEN,)}),
    "phi2": Recipe(
        with_biases({**ATTENTION, **UP_AND_DOWN}),
        with_biases({**OUTPUT_NORM, "output.weight": (HIDDEN, 40)}),
        {"rope.dimension_count": 8},
    ),
    "phi3": Recipe({**FUSED_ATTENTION, **FUSED_MLP}, windowed=(True,) * LAYERS),
    "plamo": Recipe(PARALLEL),
    "qwen": Recipe(
        {**FUSED_ATTENTION, **biases(FUSED_QKV), **MLP}, keys={"feed_forward_length": 2 * FF}
    ),
    "qwen2": Recipe(QWEN2),
    "qwen2vl": Recipe(QWEN2),
    "qwen3": Recipe(QWEN3),
    "qwen3vl": Recipe(QWEN3),
    "refact": Recipe(LLAMA),
    "seed_oss": Recipe(
        {
            **ATTENTION,
            **biases(QKV),
            "post_attention_norm.weight": (HIDDEN,),
            **GATE,
            **UP_AND_DOWN,
        }
    ),
    "smollm3": Recipe(LLAMA),
    "stablelm": Recipe(
        {**PARALLEL, "attn_norm.bias": (HIDDEN,), **QK_NORM_OF_EACH_HEAD},
        LAYER_NORM,
        {"rope.dimension_count": 8},
    ),
    "starcoder": Recipe(GPT, POSITIONS),
    "starcoder2": Recipe(with_biases({**ATTENTION, **PLAIN_MLP}), LAYER_NORM),
    "xverse": Recipe(LLAMA),
}
