"""Recipes of decoders without experts. Holds no tests."""

import numpy as np

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
    GATE,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
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
PER_LAYER = 32
LAYER_INPUT: Shapes = {
    "inp_gate.weight": (HIDDEN, PER_LAYER),
    "proj.weight": (PER_LAYER, HIDDEN),
    "post_norm.weight": (HIDDEN,),
}
LAYER_INPUTS: Shapes = {
    "per_layer_token_embd.weight": (PER_LAYER * LAYERS, VOCAB),
    "per_layer_model_proj.weight": (HIDDEN, PER_LAYER * LAYERS),
    "per_layer_proj_norm.weight": (PER_LAYER,),
}
GEMMA4: Shapes = {**QWEN3, **POST_NORMS, **LAYER_INPUT, "layer_output_scale.weight": (1,)}
GEMMA4_EXPERTS: Shapes = {
    **{
        f"{name}.weight": (HIDDEN,)
        for name in ("post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2")
    },
    "ffn_gate_inp.weight": (HIDDEN, EXPERTS),
    "ffn_gate_inp.scale": (HIDDEN,),
    "ffn_gate_up_exps.weight": (HIDDEN, 2 * FF, EXPERTS),
    "ffn_down_exps.weight": (FF, HIDDEN, EXPERTS),
    "ffn_down_exps.scale": (EXPERTS,),
}
SUB_NORMS: Shapes = {"attn_sub_norm.weight": (Q_WIDTH,), "ffn_sub_norm.weight": (FF,)}
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
    **dict.fromkeys(("bitnet", "bitnet-b1.58", "bitnet-25"), Recipe({**LLAMA, **SUB_NORMS})),
    "bloom": Recipe(GPT, {**LAYER_NORM, **with_biases({"token_embd_norm.weight": (HIDDEN,)})}),
    "chatglm": Recipe(
        {**FUSED_ATTENTION, **biases(FUSED_QKV), **FUSED_MLP}, keys={"rope.dimension_count": 16}
    ),
    "codeshell": Recipe(GPT, LAYER_NORM),
    "cogvlm": Recipe({**FUSED_ATTENTION, **MLP}),
    "cohere2": Recipe(PARALLEL, keys={"logit_scale": 0.25}, windowed=EVERY_FOURTH_SEES_ALL),
    "command-r": Recipe({**PARALLEL, **QK_NORM_OF_EACH_HEAD}, keys={"logit_scale": 0.25}),
    "deci": Recipe(
        LLAMA,
        keys={
            "attention.head_count": [HEADS, HEADS, HEADS, 0, HEADS, HEADS],
            "attention.head_count_kv": [KV_HEADS, 0, KV_HEADS, 0, KV_HEADS, KV_HEADS],
            "feed_forward_length": [FF, FF, FF, FF, 0, FF],
        },
        other={
            1: {**ATTN_NORM, "attn_output.weight": (HIDDEN, HIDDEN), **MLP},
            3: MLP,
            4: ATTENTION,
        },
        windowed=(False,) * 4,
    ),
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
    "gemma3n": Recipe(
        {
            **LLAMA,
            **QK_NORM,
            **POST_NORMS,
            **LAYER_INPUT,
            "altup_correct_coef.weight": (4, 4),
            "altup_correct_scale.weight": (HIDDEN,),
            "altup_predict_coef.weight": (4, 16),
            "altup_router.weight": (HIDDEN, 4),
            "altup_router_norm.weight": (HIDDEN,),
            "laurel_l.weight": (HIDDEN, 8),
            "laurel_r.weight": (8, HIDDEN),
            "laurel_post_norm.weight": (HIDDEN,),
        },
        {
            **OUTPUT_NORM,
            **LAYER_INPUTS,
            "altup_proj.weight": (HIDDEN, HIDDEN, 3),
            "altup_unembd_proj.weight": (HIDDEN, HIDDEN, 3),
        },
        {
            "embedding_length_per_layer_input": PER_LAYER,
            "attention.sliding_window_pattern": 3,
            "attention.shared_kv_layers": 2,
            "altup.active_idx": 1,
            "activation_sparsity_scale": np.array([1.6, 1.0, 0.0] + [-np.inf] * 3, np.float32),
        },
        windowed=(True, True, False, True),
    ),
    "gemma4": Recipe(
        GEMMA4,
        {**OUTPUT_NORM, **LAYER_INPUTS, "rope_freqs.weight": (HEAD_DIM // 2,)},
        {
            "attention.sliding_window_pattern": 4,
            "attention.shared_kv_layers": 2,
            "embedding_length_per_layer_input": PER_LAYER,
            **EXPERT_KEYS,
        },
        other={1: {**GEMMA4, **GEMMA4_EXPERTS}},
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
    "granite_swa": Recipe(
        {**LLAMA, "attn_sinks.weight": (HEADS,)},
        keys={
            "attention.rope_pattern": np.array([1, 0, 1, 1, 0, 1], np.uint32),
            "attention.sliding_window_pattern": np.array(EVERY_FOURTH_SEES_ALL),
            "logit_scale": 8.0,
            "residual_scale": 0.5,
        },
        windowed=EVERY_FOURTH_SEES_ALL,
    ),
    "hrm_text": Recipe(
        {
            **QKV,
            **ATTN_OUTPUT,
            **GATE,
            **UP_AND_DOWN,
            "attn_gate.weight": (HIDDEN, Q_WIDTH),
        },
        {"hrm.z_l_init": (HIDDEN,)},
        {
            "hrm.layers_per_stack": LAYERS // 2,
            "hrm.h_cycles": 1,
            "hrm.l_cycles": 1,
            "embedding_scale": 4.0,
        },
    ),
    "hunyuan-dense": Recipe(QWEN3),
    "hunyuan_vl": Recipe(
        QWEN3,
        keys={"rope.scaling.alpha": 1000.0, "rope.dimension_sections": [4, 4, 4, 4]},
    ),
    "internlm2": Recipe(LLAMA),
    "jais": Recipe(
        with_biases({**FUSED_ATTENTION, **MLP}),
        LAYER_NORM,
        {"attention.max_alibi_bias": 8.0},
    ),
    "jais2": Recipe(with_biases({**ATTENTION, **PLAIN_MLP}), LAYER_NORM),
    "maincoder": Recipe(QWEN3),
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
    "muse-glimmer": Recipe(
        {**QWEN3, "attn_gate.weight": (HIDDEN, Q_WIDTH), **POST_NORMS},
        keys={"logit_scale": 0.25},
        windowed=EVERY_FOURTH_SEES_ALL,
    ),
    "nanbeige": Recipe(LLAMA, keys={"num_loops": 2}, windowed=(False,) * 2 * LAYERS),
    "nemotron": Recipe(
        with_biases({**ATTENTION, **PLAIN_MLP}), LAYER_NORM, {"rope.dimension_count": 16}
    ),
    "olmo": Recipe({**QKV, **ATTN_OUTPUT, **GATE, **UP_AND_DOWN}, {}, {"attention.clamp_kqv": 1.5}),
    "olmo2": Recipe({**NORMS_BEHIND, **QK_NORM_OF_ROWS}, windowed=EVERY_FOURTH_SEES_ALL),
    "openelm": Recipe({**FUSED_ATTENTION, **QK_NORM, **MLP}),
    "orion": Recipe(
        {**LLAMA, **with_biases({**ATTN_NORM, "ffn_norm.weight": (HIDDEN,)})}, LAYER_NORM
    ),
    "paddleocr": Recipe(LLAMA, keys={"rope.dimension_sections": [4, 6, 6, 0]}),
    "pangu-embedded": Recipe({**QWEN2, "attn_output.bias": (HIDDEN,)}),
    "phi2": Recipe(
        with_biases({**ATTENTION, **UP_AND_DOWN}),
        with_biases({**OUTPUT_NORM, "output.weight": (HIDDEN, VOCAB)}),
        {"rope.dimension_count": 8},
    ),
    "phi3": Recipe({**FUSED_ATTENTION, **FUSED_MLP}, windowed=(True,) * LAYERS),
    "plamo3": Recipe(
        {**FUSED_ATTENTION, **QK_NORM, **FUSED_MLP, **POST_NORMS},
        keys={"attention.sliding_window_pattern": 3},
        windowed=(True, True, False) * 2,
    ),
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
    "spark2_5": Recipe(
        {**LLAMA, "attn_gate.weight": (HIDDEN, HEADS)},
        keys={"attention.sliding_window_pattern": np.array(EVERY_FOURTH_SEES_ALL)},
        windowed=EVERY_FOURTH_SEES_ALL,
    ),
    "stablelm": Recipe(
        {**PARALLEL, "attn_norm.bias": (HIDDEN,), **QK_NORM_OF_EACH_HEAD},
        LAYER_NORM,
        {"rope.dimension_count": 8},
    ),
    "starcoder": Recipe(GPT, POSITIONS),
    "starcoder2": Recipe(with_biases({**ATTENTION, **PLAIN_MLP}), LAYER_NORM),
    "talkie": Recipe(
        {
            **QKV,
            **ATTN_OUTPUT,
            **GATE,
            **UP_AND_DOWN,
            "attn_q_norm.weight": (1, HEADS),
            "layer_output_scale.weight": (1,),
        },
        {"output.weight": (HIDDEN, VOCAB)},
        {"logit_scale": 2.0},
    ),
    "xverse": Recipe(LLAMA),
}
