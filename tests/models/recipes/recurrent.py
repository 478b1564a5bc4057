"""Recipes of models with states: all layers recurrent, or most. Holds no tests."""

from tests.models.recipes.parts import (
    ATTENTION,
    ATTN_NORM,
    FFN_NORM,
    FUSED_ATTENTION,
    FUSED_MLP,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    MLP,
    POST_NORMS,
    Q_WIDTH,
    QK_NORM,
    QK_NORM_OF_EACH_HEAD,
    UP_AND_DOWN,
    Recipe,
    Shapes,
)

INNER, KERNEL, STATE, RANK, SSM_HEADS, GROUPS = 96, 4, 16, 8, 6, 2
SHARED = GROUPS * STATE  # width of b and of c
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
    "ssm_in.weight": (HIDDEN, 2 * INNER + 2 * SHARED + SSM_HEADS),
    "ssm_conv1d.weight": (KERNEL, INNER + 2 * SHARED),
    "ssm_conv1d.bias": (INNER + 2 * SHARED,),
    "ssm_dt.bias": (SSM_HEADS,),
    "ssm_a": (1, SSM_HEADS),
    "ssm_d": (1, SSM_HEADS),
    "ssm_norm.weight": (INNER // GROUPS, GROUPS),
    "ssm_out.weight": (INNER, HIDDEN),
}
DELTA_NET: Shapes = {
    "ssm_conv1d.weight": (KERNEL, 2 * SHARED + INNER),
    "ssm_dt.bias": (SSM_HEADS,),
    "ssm_a": (SSM_HEADS,),
    "ssm_norm.weight": (INNER // SSM_HEADS,),
    "ssm_out.weight": (INNER, HIDDEN),
}
QKV_AND_GATE: Shapes = {
    "attn_qkv.weight": (HIDDEN, 2 * SHARED + INNER),
    "attn_gate.weight": (HIDDEN, INNER),
}
ALPHA_BETA: Shapes = {
    "ssm_alpha.weight": (HIDDEN, SSM_HEADS),
    "ssm_beta.weight": (HIDDEN, SSM_HEADS),
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

ATTENDS = (2, 5)  # the layers of a hybrid that have attention
KV_HEADS_OF_LAYERS = [KV_HEADS if layer in ATTENDS else 0 for layer in range(LAYERS)]
HYBRID = {"attention.head_count_kv": KV_HEADS_OF_LAYERS}


def hybrid(recurrent: Shapes, attention: Shapes, keys: dict[str, object], **more: Shapes) -> Recipe:
    """Recurrent layers, and attention in two of them."""
    return Recipe(
        {**ATTN_NORM, **recurrent},
        keys={**keys, **HYBRID},
        other=dict.fromkeys(ATTENDS, attention),
        windowed=(False,) * len(ATTENDS),
        **more,
    )


RECIPES: dict[str, Recipe] = {
    "falcon-h1": Recipe({**ATTENTION, **MAMBA2, **MLP}, keys=HEAD_KEYS),
    "granitehybrid": hybrid(
        {**MAMBA2, **MLP},
        {**ATTENTION, **MLP},
        {**HEAD_KEYS, "residual_scale": 0.5, "logit_scale": 4.0, "embedding_scale": 2.0},
    ),
    "jamba": hybrid({**MAMBA, **STEP_NORMS, **MLP}, {**ATTENTION, **MLP}, MAMBA_KEYS),
    "lfm2": hybrid(
        {**SHORT_CONVOLUTION, **MLP},
        {**ATTENTION, **QK_NORM, **MLP},
        {"shortconv.l_cache": 3},
        top={"token_embd_norm.weight": (HIDDEN,)},
    ),
    "mamba": Recipe({**ATTN_NORM, **MAMBA}, keys=MAMBA_KEYS, windowed=()),
    "mamba2": Recipe({**ATTN_NORM, **MAMBA2}, keys=HEAD_KEYS, windowed=()),
    "nemotron_h": Recipe(
        {**ATTN_NORM, **MAMBA2},
        keys={**HEAD_KEYS, **HYBRID},
        other={
            1: {**ATTN_NORM, **UP_AND_DOWN},
            4: {**ATTN_NORM, **UP_AND_DOWN},
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
}
