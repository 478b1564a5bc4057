"""The reference backend against exact logits of other people's making."""

from pathlib import Path

import numpy as np
import pytest

from tests.models.running import logits_of

ARCHS = (
    "bloom-dense cohere2-dense command-r-dense deepseek-moe deepseek2-moe dots1-moe "
    "ernie4_5-moe-moe ernie4_5-moe exaone4-dense falcon-dense falcon-h1-dense gemma-dense "
    "gemma2-dense gemma3-dense glm4-dense glm4moe-moe gpt-oss-moe gpt2-dense gptneox-dense "
    "granite-dense granite-moe granitehybrid-dense granitemoe-moe hunyuan-dense-dense "
    "hunyuan-moe-moe internlm2-dense jamba-dense kimi-linear-moe lfm2-dense lfm2moe-moe "
    "llama-dense llama-moe mamba-dense mamba2-dense minicpm-dense minicpm3-dense minimax-m2-moe "
    "mistral3-dense mistral3-moe mistral4-moe mpt-dense nemotron-dense nemotron_h-dense "
    "olmo-dense olmo2-dense olmoe-moe phi2-dense phi3-dense phimoe-moe qwen2-dense qwen2moe-moe "
    "qwen3-dense qwen35-dense qwen35moe-moe qwen3moe-moe qwen3next-moe seed_oss-dense "
    "smollm3-dense stablelm-dense starcoder2-dense"
).split()
QUANTS = (
    "BF16 F16 IQ1_M IQ1_S IQ2_S IQ2_XS IQ2_XXS IQ3_S IQ3_XXS IQ4_NL IQ4_XS MXFP4 Q1_0 Q2_0 Q2_K "
    "Q3_K_S Q4_0 Q4_1 Q4_K_S Q5_0 Q5_1 Q5_K_S Q6_K Q8_0 TQ1_0 TQ2_0"
).split()


@pytest.mark.parametrize(
    "case", [*(f"archs/{name}" for name in ARCHS), *(f"quants/{name}" for name in QUANTS)]
)
def test_logits_equal_the_oracles(oracle: Path, case: str) -> None:
    ids = np.load(oracle / "tokens.npy").tolist()
    got = logits_of(oracle / f"{case}.gguf", ids)
    want = np.load(oracle / f"{case}.npy")
    assert got.shape == want.shape
    assert ((got - want) ** 2).mean() / (want**2).mean() <= 1e-8
