"""Recipes of decoders with experts, with latent attention, or with both. Holds no tests."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.models.recipes.parts import (
    ATTENTION,
    ATTN_NORM,
    CONTEXT,
    EXPERT_BIAS,
    EXPERT_KEYS,
    EXPERT_MLP,
    EXPERTS,
    FF,
    FFN_NORM,
    FUSED_ATTENTION,
    GATE,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    MLP,
    OUTPUT_NORM,
    PLAIN_MLP,
    POST_NORMS,
    Q_WIDTH,
    QK_NORM,
    QK_NORM_OF_ROWS,
    QKV,
    UP_AND_DOWN,
    Recipe,
    Shapes,
    biases,
    with_biases,
)

SHARED_FF, KV_RANK, Q_RANK, ROPE_DIM, VALUE_DIM = 32, 64, 32, 8, 32
PLAIN_DIM = HEAD_DIM  # of a latent key, beside ROPE_DIM with a position
MIXTRAL: Shapes = {**ATTENTION, **FFN_NORM, **EXPERT_MLP}
BIAS: Shapes = {"exp_probs_b.bias": (EXPERTS,)}
SHARED: Shapes = {
    "ffn_gate_shexp.weight": (HIDDEN, SHARED_FF),
    "ffn_up_shexp.weight": (HIDDEN, SHARED_FF),
    "ffn_down_shexp.weight": (SHARED_FF, HIDDEN),
}
SHARED_KEYS: Mapping[str, Any] = {
    **EXPERT_KEYS,
    "expert_shared_feed_forward_length": SHARED_FF,
    "expert_weights_scale": 1.5,
}
FUSED_EXPERT_MLP: Shapes = {
    "ffn_gate_inp.weight": (HIDDEN, EXPERTS),
    "ffn_gate_up_exps.weight": (HIDDEN, 2 * FF, EXPERTS),
    "ffn_down_exps.weight": (FF, HIDDEN, EXPERTS),
}
LATENT_KEYS_AND_VALUES: Shapes = {
    **ATTN_NORM,
    "attn_kv_a_mqa.weight": (HIDDEN, KV_RANK + ROPE_DIM),
    "attn_kv_a_norm.weight": (KV_RANK,),
    "attn_output.weight": (HEADS * VALUE_DIM, HIDDEN),
}
LATENT: Shapes = {
    **LATENT_KEYS_AND_VALUES,
    "attn_q_a.weight": (HIDDEN, Q_RANK),
    "attn_q_a_norm.weight": (Q_RANK,),
    "attn_q_b.weight": (Q_RANK, HEADS * (PLAIN_DIM + ROPE_DIM)),
}
TWO_MATRICES: Shapes = {
    "attn_k_b.weight": (PLAIN_DIM, KV_RANK, HEADS),
    "attn_v_b.weight": (KV_RANK, VALUE_DIM, HEADS),
}
ONE_MATRIX: Shapes = {"attn_kv_b.weight": (KV_RANK, HEADS * (PLAIN_DIM + VALUE_DIM))}
# Of layers with a window, where those have other latents.
LOCAL_RANK, LOCAL_PLAIN_DIM, LOCAL_VALUE_DIM = 96, 16, 24
LOCAL_LATENT: Shapes = {
    **ATTN_NORM,
    "attn_kv_a_mqa.weight": (HIDDEN, LOCAL_RANK + ROPE_DIM),
    "attn_kv_a_norm.weight": (LOCAL_RANK,),
    "attn_output.weight": (HEADS * LOCAL_VALUE_DIM, HIDDEN),
    "attn_q_a.weight": (HIDDEN, Q_RANK),
    "attn_q_a_norm.weight": (Q_RANK,),
    "attn_q_b.weight": (Q_RANK, HEADS * (LOCAL_PLAIN_DIM + ROPE_DIM)),
    "attn_k_b.weight": (LOCAL_PLAIN_DIM, LOCAL_RANK, HEADS),
    "attn_v_b.weight": (LOCAL_RANK, LOCAL_VALUE_DIM, HEADS),
}
POSITION_NORM: Shapes = {"attn_k_norm.weight": (ROPE_DIM,)}
LATENT_KEYS: Mapping[str, Any] = {
    "attention.q_lora_rank": Q_RANK,
    "attention.kv_lora_rank": KV_RANK,
    "attention.head_count_kv": 1,
    "attention.key_length": KV_RANK + ROPE_DIM,
    "attention.value_length": KV_RANK,
    "attention.key_length_mla": PLAIN_DIM + ROPE_DIM,
    "attention.value_length_mla": VALUE_DIM,
    "rope.dimension_count": ROPE_DIM,
}
# As files had it before keys and values were absorbed.
UNFOLDED_KEYS: Mapping[str, Any] = {
    "attention.q_lora_rank": Q_RANK,
    "attention.kv_lora_rank": KV_RANK,
    "attention.head_count_kv": HEADS,
    "attention.key_length": PLAIN_DIM + ROPE_DIM,
    "attention.value_length": VALUE_DIM,
    "rope.dimension_count": ROPE_DIM,
}

BIAS_AND_SINKS: Shapes = {**BIAS, "attn_sinks.weight": (HEADS,)}
GATED: Shapes = {"attn_gate.weight": (HIDDEN, Q_WIDTH)}
GATED_BY_HEAD: Shapes = {"attn_gate.weight": (HIDDEN, HEADS)}
EVERY_FOURTH_SEES_ALL = (True, True, True, False, True, True)
FIRST_OF_FOUR_SEES_ALL = (False, True, True, True, False, True)

RECIPES: dict[str, Recipe] = {
    "afmoe": Recipe(
        {**ATTENTION, **QK_NORM, **GATED, **POST_NORMS, **FFN_NORM, **EXPERT_MLP, **BIAS, **SHARED},
        keys=SHARED_KEYS,
        other={0: {**ATTENTION, **QK_NORM, **GATED, **POST_NORMS, **MLP}},
        windowed=EVERY_FOURTH_SEES_ALL,
    ),
    "arctic": Recipe(
        {
            **MIXTRAL,
            "ffn_norm_exps.weight": (HIDDEN,),
            "ffn_gate.weight": (HIDDEN, HIDDEN),
            "ffn_up.weight": (HIDDEN, HIDDEN),
            "ffn_down.weight": (HIDDEN, HIDDEN),
        },
        keys=EXPERT_KEYS,
    ),
    "bailingmoe": Recipe({**MIXTRAL, **SHARED}, keys=SHARED_KEYS),
    "bailingmoe2": Recipe(
        {
            **FUSED_ATTENTION,
            **QK_NORM,
            **FFN_NORM,
            "ffn_gate_inp.weight": (HIDDEN, 4),
            "ffn_gate_exps.weight": (HIDDEN, FF, 4),
            "ffn_up_exps.weight": (HIDDEN, FF, 4),
            "ffn_down_exps.weight": (FF, HIDDEN, 4),
            "exp_probs_b.bias": (4,),
            **SHARED,
        },
        keys={
            **SHARED_KEYS,
            "expert_count": 4,
            "expert_shared_count": 2,
            "expert_shared_feed_forward_length": SHARED_FF // 2,
            "expert_group_count": 2,
            "expert_group_used_count": 1,
            "expert_weights_norm": True,
        },
    ),
    "cohere2moe": Recipe(
        {**ATTENTION, **EXPERT_MLP, **SHARED},
        keys={
            **SHARED_KEYS,
            "attention.layer_norm_rms_epsilon": 0.0,
            "leading_dense_block_count": 1,
            "expert_weights_norm": True,
        },
        other={0: {**ATTENTION, **GATE, **UP_AND_DOWN}},
        windowed=FIRST_OF_FOUR_SEES_ALL,
    ),
    "dbrx": Recipe(
        {**FUSED_ATTENTION, "attn_output_norm.weight": (HIDDEN,), **EXPERT_MLP},
        keys={**EXPERT_KEYS, "attention.clamp_kqv": 4.0},
    ),
    "deepseek": Recipe({**MIXTRAL, **SHARED}, keys=SHARED_KEYS),
    "deepseek2": Recipe(
        {**LATENT, **TWO_MATRICES, **FFN_NORM, **EXPERT_MLP, **BIAS, **SHARED},
        keys={**SHARED_KEYS, **LATENT_KEYS, "expert_weights_norm": True, "expert_gating_func": 2},
    ),
    "deepseek32": Recipe(
        {**LATENT, **TWO_MATRICES, **FFN_NORM, **EXPERT_MLP, **BIAS, **SHARED},
        keys={
            **SHARED_KEYS,
            **LATENT_KEYS,
            "attention.indexer.top_k": CONTEXT,
            "expert_gating_func": 2,
        },
    ),
    "deepseek2-ocr": Recipe(
        {**MIXTRAL, **SHARED}, keys={**SHARED_KEYS, "attention.sliding_window": 0}
    ),
    "dots3note": Recipe(
        {
            **{**LOCAL_LATENT, **POSITION_NORM, **GATED_BY_HEAD, **FFN_NORM},
            **{**EXPERT_MLP, **BIAS, **SHARED},
        },
        keys={
            **SHARED_KEYS,
            **LATENT_KEYS,
            "attention.kv_lora_rank_swa": LOCAL_RANK,
            "attention.key_length_mla_swa": LOCAL_PLAIN_DIM + ROPE_DIM,
            "attention.value_length_mla_swa": LOCAL_VALUE_DIM,
            "attention.sliding_window_pattern": np.array([1, 1, 1, 0, 1, 1], np.int32),
            "attention.indexer.top_k": CONTEXT,
            "rope.freq_base_swa": 3000.0,
        },
        other={
            3: {
                **{**LATENT, **TWO_MATRICES, **POSITION_NORM, **GATED_BY_HEAD, **FFN_NORM},
                **{**EXPERT_MLP, **BIAS, **SHARED},
            }
        },
        windowed=EVERY_FOURTH_SEES_ALL,
    ),
    "dots1": Recipe({**MIXTRAL, **QK_NORM, **BIAS, **SHARED}, keys=SHARED_KEYS),
    "ernie4_5-moe": Recipe({**MIXTRAL, **BIAS, **SHARED}, keys=SHARED_KEYS),
    "exaone-moe": Recipe(
        {**MIXTRAL, **QK_NORM, **BIAS, **SHARED},
        keys=SHARED_KEYS,
        other={0: {**ATTENTION, **QK_NORM, **MLP}},
        windowed=EVERY_FOURTH_SEES_ALL,
    ),
    "glm-dsa": Recipe(
        {**LATENT, **TWO_MATRICES, **FFN_NORM, **EXPERT_MLP, **BIAS, **SHARED},
        keys={**SHARED_KEYS, **LATENT_KEYS, "attention.indexer.top_k": CONTEXT},
    ),
    "glm4moe": Recipe(
        {
            **ATTENTION,
            **biases(QKV),
            "post_attention_norm.weight": (HIDDEN,),
            **EXPERT_MLP,
            **BIAS,
            **SHARED,
        },
        keys={**SHARED_KEYS, "rope.dimension_count": 16},
    ),
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
    "granitemoe": Recipe(
        {**MIXTRAL, **SHARED}, keys={**SHARED_KEYS, "logit_scale": 2.0, "residual_scale": 0.5}
    ),
    "grok": Recipe(
        {
            **MIXTRAL,
            **GATE,
            **UP_AND_DOWN,
            "attn_output_norm.weight": (HIDDEN,),
            "layer_output_norm.weight": (HIDDEN,),
        },
        keys={**EXPERT_KEYS, "attention.output_scale": 0.2, "embedding_scale": 3.0},
    ),
    "grovemoe": Recipe(
        {
            **ATTENTION,
            **QK_NORM,
            **FFN_NORM,
            "ffn_gate_inp.weight": (HIDDEN, 6),
            "ffn_gate_exps.weight": (HIDDEN, FF, 6),
            "ffn_up_exps.weight": (HIDDEN, FF, 6),
            "ffn_down_exps.weight": (FF, HIDDEN, 6),
            "ffn_gate_chexps.weight": (HIDDEN, SHARED_FF, 2),
            "ffn_up_chexps.weight": (HIDDEN, SHARED_FF, 2),
            "ffn_down_chexps.weight": (SHARED_FF, HIDDEN, 2),
        },
        keys={
            "expert_count": 6,
            "expert_used_count": 4,
            "expert_feed_forward_length": FF,
            "expert_chunk_feed_forward_length": SHARED_FF,
            "experts_per_group": 3,
            "expert_group_scale": 0.5,
        },
    ),
    "hunyuan-moe": Recipe({**MIXTRAL, **QK_NORM, **SHARED}, keys=SHARED_KEYS),
    "hy_v3": Recipe({**MIXTRAL, **QK_NORM, "exp_probs_b": (EXPERTS,), **SHARED}, keys=SHARED_KEYS),
    "laguna": Recipe(
        {**MIXTRAL, **QK_NORM, **GATED_BY_HEAD, **BIAS, **SHARED},
        keys={**SHARED_KEYS, "rope.dimension_count": 16, "rope.dimension_count_swa": 32},
        windowed=FIRST_OF_FOUR_SEES_ALL,
    ),
    "llama4": Recipe(
        {**MIXTRAL, **SHARED},
        keys=SHARED_KEYS,
        other={0: {**ATTENTION, **MLP}, 2: {**ATTENTION, **MLP}},
        windowed=EVERY_FOURTH_SEES_ALL,
    ),
    "maple": Recipe(
        {**MIXTRAL, **QK_NORM},
        keys={
            **EXPERT_KEYS,
            "attention.sliding_window_pattern": np.array([1, 0, 1, 1, 0, 1], np.uint32),
            "swiglu_clamp_exp": 0.6,
        },
        windowed=(True, False, True, True, False, True),
    ),
    "mellum": Recipe(
        {**MIXTRAL, **QK_NORM},
        keys={**EXPERT_KEYS, "expert_feed_forward_length": FF},
        windowed=EVERY_FOURTH_SEES_ALL,
    ),
    "mimo2": Recipe(
        {**MIXTRAL, **BIAS_AND_SINKS},
        keys={
            **EXPERT_KEYS,
            "attention.value_scale": 0.7,
            "attention.sliding_window_pattern": np.array([0, 1, 1, 0, 1, 1], np.bool_),
            "rope.dimension_count": 16,
        },
        other={
            0: {**ATTENTION, **MLP},
            3: {**MIXTRAL, **BIAS},
            5: {**MIXTRAL, **MLP, **BIAS_AND_SINKS},
        },
        windowed=(False, True, True, False, True, True),
    ),
    "minicpm3": Recipe({**LATENT, **ONE_MATRIX, **MLP}, keys=UNFOLDED_KEYS),
    "minimax-m2": Recipe(
        {**MIXTRAL, **QK_NORM_OF_ROWS, **BIAS}, keys={**EXPERT_KEYS, "rope.dimension_count": 16}
    ),
    "minimax-m3": Recipe(
        {**MIXTRAL, **QK_NORM, **BIAS, **SHARED},
        keys={
            **SHARED_KEYS,
            "rope.dimension_count": 16,
            "attention.indexer.top_k": CONTEXT // 4,
            "attention.indexer.block_size": 4,
        },
        other={0: {**ATTENTION, **QK_NORM, **MLP}},
    ),
    "mistral4": Recipe(
        {**LATENT, **TWO_MATRICES, **FFN_NORM, **FUSED_EXPERT_MLP},
        keys={
            **EXPERT_KEYS,
            **LATENT_KEYS,
            "attention.temperature_scale": 0.1,
            "rope.scaling.original_context_length": 16,
        },
    ),
    "olmoe": Recipe({**MIXTRAL, **QK_NORM_OF_ROWS}, keys=EXPERT_KEYS),
    "phimoe": Recipe(
        {**with_biases(ATTENTION), **with_biases(FFN_NORM), **EXPERT_MLP},
        with_biases(OUTPUT_NORM),
        EXPERT_KEYS,
    ),
    "plm": Recipe(
        {
            **LATENT_KEYS_AND_VALUES,
            "attn_q.weight": (HIDDEN, HEADS * (PLAIN_DIM + ROPE_DIM)),
            **ONE_MATRIX,
            **PLAIN_MLP,
        },
        keys=UNFOLDED_KEYS,
    ),
    "qwen2moe": Recipe(
        {**MIXTRAL, **biases(QKV), **SHARED, "ffn_gate_inp_shexp.weight": (HIDDEN,)},
        keys={**SHARED_KEYS, "expert_feed_forward_length": FF},
    ),
    "qwen3moe": Recipe(
        {**MIXTRAL, **QK_NORM}, keys={**EXPERT_KEYS, "expert_feed_forward_length": FF}
    ),
    "qwen3vlmoe": Recipe(
        {**MIXTRAL, **QK_NORM}, keys={**EXPERT_KEYS, "expert_feed_forward_length": FF}
    ),
    "smallthinker": Recipe(
        MIXTRAL, keys={**EXPERT_KEYS, "expert_gating_func": 2}, windowed=FIRST_OF_FOUR_SEES_ALL
    ),
    "step35": Recipe(
        {**MIXTRAL, **QK_NORM, **GATED_BY_HEAD, **BIAS, **SHARED},
        keys={
            **SHARED_KEYS,
            "attention.sliding_window_pattern": np.array([0, 1, 1, 0, 1, 1], np.bool_),
            "swiglu_clamp_exp": np.array([0, 0, 0.5, 0, 0.5, 0.5], np.float32),
            "swiglu_clamp_shexp": np.array([0, 0, 0.5, 0.3, 0, 0.5], np.float32),
        },
        windowed=(False, True, True, False, True, True),
    ),
}
