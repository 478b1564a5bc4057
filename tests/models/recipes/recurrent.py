"""Recipes of models with states: all layers recurrent, or most. Holds no tests."""

import numpy as np

from tests.models.recipes.experts import (
    BIAS,
    LATENT,
    LATENT_KEYS,
    PLAIN_DIM,
    ROPE_DIM,
    SHARED,
    SHARED_KEYS,
    TWO_MATRICES,
)
from tests.models.recipes.parts import (
    ATTENTION,
    ATTN_NORM,
    EXPERT_KEYS,
    EXPERT_MLP,
    EXPERTS,
    FF,
    FFN_NORM,
    FUSED_ATTENTION,
    FUSED_MLP,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    MLP,
    OUTPUT_NORM,
    POST_NORMS,
    Q_WIDTH,
    QK_NORM,
    QK_NORM_OF_EACH_HEAD,
    UP_AND_DOWN,
    Recipe,
    Shapes,
    with_biases,
)

INNER, KERNEL, STATE, RANK, SSM_HEADS, GROUPS = 96, 4, 16, 8, 6, 2
GROUPED = GROUPS * STATE  # width of b and of c
KEYS = {"ssm.inner_size": INNER, "ssm.conv_kernel": KERNEL, "ssm.state_size": STATE}
MAMBA_KEYS = {**KEYS, "ssm.time_step_rank": RANK}
HEAD_KEYS = {**KEYS, "ssm.time_step_rank": SSM_HEADS, "ssm.group_count": GROUPS}

MAMBA: Shapes = {
    "ssm_in.weight": (HIDDEN, 2 * INNER),
    "ssm_conv1d.weight": (KERNEL, INNER),
    "ssm_conv1d.bias": (INNER,),
    "ssm_x.weight": (INNER, RANK + 2 * STATE),
    "ssm_dt.weight": (RANK, INNER),
    "ssm_dt.bias": (INNER,),
    "ssm_a": (STATE, INNER),
    "ssm_d": (INNER,),
    "ssm_out.weight": (INNER, HIDDEN),
}
MAMBA_OF_HEADS: Shapes = {
    **MAMBA,
    "ssm_x.weight": (INNER, 2 * STATE + 64),
    "ssm_dt.weight": (64, SSM_HEADS),
    "ssm_dt.bias": (SSM_HEADS,),
    "ssm_a": (SSM_HEADS,),
    "ssm_d": (SSM_HEADS,),
    "ssm_dt_norm.weight": (64,),
    "ssm_b_norm.weight": (STATE,),
    "ssm_c_norm.weight": (STATE,),
}
STEP_NORMS: Shapes = {
    "ssm_dt_norm.weight": (RANK,),
    "ssm_b_norm.weight": (STATE,),
    "ssm_c_norm.weight": (STATE,),
}
MAMBA2: Shapes = {
    "ssm_in.weight": (HIDDEN, 2 * INNER + 2 * GROUPED + SSM_HEADS),
    "ssm_conv1d.weight": (KERNEL, INNER + 2 * GROUPED),
    "ssm_conv1d.bias": (INNER + 2 * GROUPED,),
    "ssm_dt.bias": (SSM_HEADS,),
    "ssm_a": (1, SSM_HEADS),
    "ssm_d": (1, SSM_HEADS),
    "ssm_norm.weight": (INNER // GROUPS, GROUPS),
    "ssm_out.weight": (INNER, HIDDEN),
}
DELTA_NET: Shapes = {
    "ssm_conv1d.weight": (KERNEL, 2 * GROUPED + INNER),
    "ssm_dt.bias": (SSM_HEADS,),
    "ssm_a": (SSM_HEADS,),
    "ssm_norm.weight": (INNER // SSM_HEADS,),
    "ssm_out.weight": (INNER, HIDDEN),
}
QKV_AND_GATE: Shapes = {
    "attn_qkv.weight": (HIDDEN, 2 * GROUPED + INNER),
    "attn_gate.weight": (HIDDEN, INNER),
}
ALPHA_BETA: Shapes = {
    "ssm_alpha.weight": (HIDDEN, SSM_HEADS),
    "ssm_beta.weight": (HIDDEN, SSM_HEADS),
}
EARLY_QWEN: Shapes = {
    "ssm_in.weight": (HIDDEN, 2 * GROUPED + 2 * INNER),
    "ssm_ba.weight": (HIDDEN, 2 * SSM_HEADS),
}
GATED_ATTENTION: Shapes = {**ATTENTION, **QK_NORM, "attn_q.weight": (HIDDEN, 2 * Q_WIDTH)}
SHORT_CONVOLUTION: Shapes = {
    "shortconv.in_proj.weight": (HIDDEN, 3 * HIDDEN),
    "shortconv.conv.weight": (3, HIDDEN),
    "shortconv.out_proj.weight": (HIDDEN, HIDDEN),
}
HUGGING_FACE_MLP: Shapes = {
    **{name: shape for name, shape in MLP.items() if name not in FFN_NORM},
    "post_attention_norm.weight": (HIDDEN,),
}

LIGHTNING: Shapes = {
    **ATTN_NORM,
    "attn_qkv.weight": (HIDDEN, 3 * Q_WIDTH),
    "attn_norm_2.weight": (Q_WIDTH,),
    "attn_gate.weight": (HIDDEN, Q_WIDTH),
    "attn_output.weight": (Q_WIDTH, HIDDEN),
}
KDA_DIM = 16
KDA: Shapes = {
    **{f"attn_{part}.weight": (HIDDEN, HEADS * KDA_DIM) for part in "qkv"},
    **{f"ssm_conv1d_{part}.weight": (KERNEL, 1, HEADS * KDA_DIM) for part in "qkv"},
    "ssm_f_a.weight": (HIDDEN, KDA_DIM),
    "ssm_f_b.weight": (KDA_DIM, HEADS * KDA_DIM),
    "ssm_g_a.weight": (HIDDEN, KDA_DIM),
    "ssm_g_b.weight": (KDA_DIM, HEADS * KDA_DIM),
    "ssm_beta.weight": (HIDDEN, HEADS),
    "ssm_dt.bias": (HEADS * KDA_DIM,),
    "ssm_a": (1, HEADS),
    "ssm_norm.weight": (KDA_DIM,),
    "attn_output.weight": (HEADS * KDA_DIM, HIDDEN),
}
SIMPLE_KDA: Shapes = {
    **{name: shape for name, shape in KDA.items() if not name.endswith(("_a.weight", "_b.weight"))},
    **{f"ssm_{part}_a.weight": (HIDDEN, HEADS * KDA_DIM) for part in "fg"},
}
PLAIN_LATENT: Shapes = {
    **{name: shape for name, shape in LATENT.items() if not name.startswith("attn_q")},
    "attn_q.weight": (HIDDEN, HEADS * (PLAIN_DIM + ROPE_DIM)),
}
SHARED_EXPERT: Shapes = {**EXPERT_MLP, **SHARED, "ffn_gate_inp_shexp.weight": (HIDDEN,)}
HUGGING_FACE_EXPERTS: Shapes = {**SHARED_EXPERT, "post_attention_norm.weight": (HIDDEN,)}
UNGATED_EXPERTS: Shapes = {
    name: shape for name, shape in {**EXPERT_MLP, **SHARED}.items() if "gate_" not in name
} | {"ffn_gate_inp.weight": (HIDDEN, EXPERTS)}

WKV, LOW_RANK = 16, 8
RWKV: Shapes = {
    **with_biases({"attn_norm.weight": (HIDDEN,), "attn_norm_2.weight": (HIDDEN,)}),
    "time_mix_lerp_fused.weight": (HIDDEN, 1, 1, 6),
    **{f"time_mix_{part}0.weight": (HIDDEN,) for part in "wav"},
    **{f"time_mix_{part}1.weight": (HIDDEN, LOW_RANK) for part in "wavg"},
    **{f"time_mix_{part}2.weight": (LOW_RANK, HIDDEN) for part in "wavg"},
    **{f"time_mix_{part}.weight": (HIDDEN,) for part in ("k_k", "k_a", "r_k")},
    **{
        f"time_mix_{part}.weight": (HIDDEN, HIDDEN)
        for part in ("receptance", "key", "value", "output")
    },
    **with_biases({"time_mix_ln.weight": (HIDDEN,)}),
    "channel_mix_lerp_k.weight": (HIDDEN, 1, 1),
    "channel_mix_key.weight": (HIDDEN, FF),
    "channel_mix_value.weight": (FF, HIDDEN),
}
RWKV_KEYS = {
    "wkv.head_size": WKV,
    "attention.head_count": 0,
    "attention.head_count_kv": 0,
    **{
        f"attention.{part}_lora_rank": LOW_RANK
        for part in ("decay", "iclr", "value_residual_mix", "gate")
    },
}

ATTENDS = (1, 4)  # the layers of a hybrid that have attention
KV_HEADS_OF_LAYERS = [KV_HEADS if layer in ATTENDS else 0 for layer in range(LAYERS)]
HYBRID = {"attention.head_count_kv": KV_HEADS_OF_LAYERS}


def hybrid(
    recurrent: Shapes,
    attention: Shapes,
    keys: dict[str, object],
    windowed: bool = False,
    **more: Shapes,
) -> Recipe:
    """Recurrent layers, and attention in two of them."""
    return Recipe(
        {**ATTN_NORM, **recurrent},
        keys={**keys, **HYBRID},
        other=dict.fromkeys(ATTENDS, attention),
        windowed=(windowed,) * len(ATTENDS),
        **more,
    )


WITHOUT_NORMS = ("attn_norm.bias", "attn_norm_2", "time_mix_ln", "channel_mix")
RWKV_OF_QWEN: Shapes = {
    **{name: shape for name, shape in RWKV.items() if not name.startswith(WITHOUT_NORMS)},
    **MLP,
}
RWKV6: Shapes = {
    **with_biases({"attn_norm.weight": (HIDDEN,), "attn_norm_2.weight": (HIDDEN,)}),
    "time_mix_w1.weight": (HIDDEN, 5 * LOW_RANK),
    "time_mix_w2.weight": (LOW_RANK, HIDDEN, 5),
    "time_mix_lerp_x.weight": (HIDDEN, 1, 1),
    "time_mix_lerp_fused.weight": (HIDDEN, 1, 1, 5),
    "time_mix_first.weight": (WKV, HIDDEN // WKV),
    "time_mix_decay.weight": (HIDDEN,),
    "time_mix_decay_w1.weight": (HIDDEN, 2 * LOW_RANK),
    "time_mix_decay_w2.weight": (2 * LOW_RANK, HIDDEN),
    **{
        f"time_mix_{part}.weight": (HIDDEN, HIDDEN)
        for part in ("receptance", "key", "value", "gate", "output")
    },
    **with_biases({"time_mix_ln.weight": (HIDDEN,)}),
    "channel_mix_lerp_k.weight": (HIDDEN, 1, 1),
    "channel_mix_lerp_r.weight": (HIDDEN, 1, 1),
    "channel_mix_key.weight": (HIDDEN, FF),
    "channel_mix_value.weight": (FF, HIDDEN),
    "channel_mix_receptance.weight": (HIDDEN, HIDDEN),
}
RWKV6_KEYS = {
    "wkv.head_size": WKV,
    "time_mix_extra_dim": LOW_RANK,
    "time_decay_extra_dim": 2 * LOW_RANK,
    "attention.head_count": 0,
    "attention.head_count_kv": 0,
}
RWKV6_OF_QWEN: Shapes = {
    **{
        name: shape
        for name, shape in RWKV6.items()
        if not name.startswith((*WITHOUT_NORMS, "time_mix_first"))
    },
    **with_biases({f"time_mix_{part}.weight": (HIDDEN, 2 * WKV) for part in ("key", "value")}),
    "time_mix_receptance.bias": (HIDDEN,),
    **MLP,
}

RECIPES: dict[str, Recipe] = {
    "arwkv7": Recipe(RWKV_OF_QWEN, keys=RWKV_KEYS, windowed=()),
    "falcon-h1": Recipe({**ATTENTION, **MAMBA2, **MLP}, keys=HEAD_KEYS),
    "granitehybrid": hybrid(
        {**MAMBA2, **MLP},
        {**ATTENTION, **MLP},
        {**HEAD_KEYS, "residual_scale": 0.5, "logit_scale": 4.0, "embedding_scale": 2.0},
    ),
    "jamba": Recipe(
        {**ATTN_NORM, **MAMBA, **STEP_NORMS, **MLP},
        keys={**MAMBA_KEYS, **HYBRID, **EXPERT_KEYS},
        other={
            3: {**ATTN_NORM, **MAMBA, **STEP_NORMS, **FFN_NORM, **EXPERT_MLP},
            1: {**ATTENTION, **FFN_NORM, **EXPERT_MLP},
            4: {**ATTENTION, **MLP},
        },
        windowed=(False,) * len(ATTENDS),
    ),
    "kimi-linear": Recipe(
        {**ATTN_NORM, **KDA, **FFN_NORM, **EXPERT_MLP, **BIAS, **SHARED},
        keys={
            **SHARED_KEYS,
            **LATENT_KEYS,
            "attention.q_lora_rank": 0,
            **HYBRID,
            "ssm.conv_kernel": KERNEL,
            "kda.head_dim": KDA_DIM,
            "expert_gating_func": 2,
        },
        other={
            0: {**ATTN_NORM, **KDA, **MLP},
            **dict.fromkeys(
                ATTENDS,
                {**PLAIN_LATENT, **TWO_MATRICES, **FFN_NORM, **EXPERT_MLP, **BIAS, **SHARED},
            ),
        },
        windowed=(False,) * len(ATTENDS),
    ),
    "bailingmoe3": Recipe(
        {**ATTN_NORM, **SIMPLE_KDA, **FFN_NORM, **EXPERT_MLP, **BIAS, **SHARED},
        keys={
            **SHARED_KEYS,
            **LATENT_KEYS,
            **HYBRID,
            "ssm.conv_kernel": KERNEL,
            "kda.head_dim": KDA_DIM,
            "kda.safe_gate": True,
            "kda.gate_lower_bound": -3.0,
            "expert_gating_func": 2,
        },
        other={
            0: {**ATTN_NORM, **SIMPLE_KDA, **MLP},
            **dict.fromkeys(
                ATTENDS,
                {
                    **LATENT,
                    **TWO_MATRICES,
                    "attn_gate.weight": (HIDDEN, HEADS),
                    **FFN_NORM,
                    **EXPERT_MLP,
                    **BIAS,
                    **SHARED,
                },
            ),
        },
        windowed=(False,) * len(ATTENDS),
    ),
    "lfm2": hybrid(
        {**SHORT_CONVOLUTION, **MLP},
        {**ATTENTION, **QK_NORM, **MLP},
        {"shortconv.l_cache": 3},
        windowed=True,
        top={"token_embd_norm.weight": (HIDDEN,)},
    ),
    "lfm2moe": hybrid(
        {**SHORT_CONVOLUTION, **FFN_NORM, **EXPERT_MLP, **BIAS},
        {**ATTENTION, **QK_NORM, **FFN_NORM, **EXPERT_MLP, **BIAS},
        {"shortconv.l_cache": 3, **EXPERT_KEYS},
        top={"token_embd_norm.weight": (HIDDEN,)},
    ),
    "mamba": Recipe({**ATTN_NORM, **MAMBA}, keys=MAMBA_KEYS, windowed=()),
    "mamba2": Recipe({**ATTN_NORM, **MAMBA2}, keys=HEAD_KEYS, windowed=()),
    "minimax-01": Recipe(
        {**LIGHTNING, **FFN_NORM, **EXPERT_MLP},
        keys={
            **EXPERT_KEYS,
            "residual_scale": 1.5,
            "rope.dimension_count": 16,
            "attention.recurrent_layers": np.array([n not in ATTENDS for n in range(LAYERS)]),
        },
        other=dict.fromkeys(ATTENDS, {**ATTENTION, **FFN_NORM, **EXPERT_MLP}),
        windowed=(False,) * len(ATTENDS),
    ),
    "nemotron_h": Recipe(
        {**ATTN_NORM, **MAMBA2},
        keys={**HEAD_KEYS, **HYBRID},
        other={
            3: {**ATTN_NORM, **UP_AND_DOWN},
            5: {**ATTN_NORM, **UP_AND_DOWN},
            **dict.fromkeys(ATTENDS, ATTENTION),
        },
        windowed=(False,) * len(ATTENDS),
    ),
    "nemotron_h_moe": Recipe(
        {**ATTN_NORM, **MAMBA2},
        keys={**HEAD_KEYS, **HYBRID, **SHARED_KEYS, "expert_weights_norm": True},
        other={
            3: {**ATTN_NORM, **UNGATED_EXPERTS, **BIAS},
            5: {**ATTN_NORM, **UNGATED_EXPERTS, **BIAS},
            **dict.fromkeys(ATTENDS, ATTENTION),
        },
        windowed=(False,) * len(ATTENDS),
    ),
    "plamo2": hybrid(
        {**MAMBA_OF_HEADS, **FUSED_MLP, **POST_NORMS},
        {**FUSED_ATTENTION, **QK_NORM_OF_EACH_HEAD, **FUSED_MLP, **POST_NORMS},
        {**KEYS, "ssm.time_step_rank": SSM_HEADS},
    ),
    "qwen35": hybrid(
        {**DELTA_NET, **QKV_AND_GATE, **ALPHA_BETA, **HUGGING_FACE_MLP},
        {**GATED_ATTENTION, **HUGGING_FACE_MLP},
        HEAD_KEYS,
    ),
    "qwen35moe": hybrid(
        {**DELTA_NET, **QKV_AND_GATE, **ALPHA_BETA, **HUGGING_FACE_EXPERTS},
        {**GATED_ATTENTION, **HUGGING_FACE_EXPERTS},
        {**HEAD_KEYS, **SHARED_KEYS},
    ),
    "qwen3next": hybrid(
        {**DELTA_NET, **EARLY_QWEN, **HUGGING_FACE_EXPERTS},
        {**GATED_ATTENTION, **HUGGING_FACE_EXPERTS},
        {**HEAD_KEYS, **SHARED_KEYS},
    ),
    "rwkv6": Recipe(
        RWKV6,
        {**with_biases(OUTPUT_NORM), **with_biases({"token_embd_norm.weight": (HIDDEN,)})},
        {**RWKV6_KEYS, "rescale_every_n_layers": 2},
        windowed=(),
    ),
    "rwkv6qwen2": Recipe(
        RWKV6_OF_QWEN,
        keys={**RWKV6_KEYS, "attention.head_count": 4, "attention.head_count_kv": 2},
        windowed=(),
    ),
    "rwkv7": Recipe(
        RWKV,
        {**with_biases(OUTPUT_NORM), **with_biases({"token_embd_norm.weight": (HIDDEN,)})},
        RWKV_KEYS,
        windowed=(),
    ),
}
