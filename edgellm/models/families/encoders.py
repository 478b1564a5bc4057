"""Models that turn a text into numbers: every token sees all others, and there are no logits.

Sources: Devlin et al. 2018; Nussbaum et al. 2024 (Nomic); Guenther et al. 2023 (Jina 2); Warner et
al. 2024 (ModernBERT); Le Breton et al. 2025 (NeoBERT); Boizard et al. 2025 (EuroBERT); Schechter
Vera et al. 2025 (EmbeddingGemma); Raffel et al. 2020 (T5).
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgellm.models.architecture import Architecture

if TYPE_CHECKING:
    from edgellm.models.config import ModelConfig


def _root_of_hidden_size(config: "ModelConfig") -> float:
    return math.sqrt(config.hidden_size)


def _jina_alibi(config: "ModelConfig") -> float:
    return config.max_alibi_bias or 8.0


_T5 = Architecture(
    rope=None,
    causal=False,
    output_norm="enc.output_norm",
    activation="gelu_tanh",
    gate_optional=True,
    ungated_activation="relu",
    part="enc.",
)

ROWS: Mapping[str, Architecture] = {
    "bert": Architecture(
        rope=None,
        causal=False,
        norm="layer",
        residual="normed_sums",
        output_norm=None,
        activation="gelu",
        gated=False,
    ),
    "eurobert": Architecture(rope="split", causal=False),
    "gemma-embedding": Architecture(
        rope="split",
        causal=False,
        local_rope=True,
        local_rope_base=10000.0,
        window_period=6,
        embedding_factor=_root_of_hidden_size,
        activation="gelu_tanh",
    ),
    "jina-bert-v2": Architecture(
        rope=None,
        causal=False,
        norm="layer",
        residual="normed_sums",
        output_norm=None,
        alibi=_jina_alibi,
        activation="gelu",
        gate_optional=True,
    ),
    "jina-bert-v3": Architecture(
        rope="split",
        causal=False,
        norm="layer",
        residual="normed_sums",
        output_norm=None,
        activation="gelu",
        gated=False,
    ),
    "llama-embed": Architecture(rope="interleaved", causal=False, normalize_gates=True),
    "modern-bert": Architecture(
        rope="split",
        causal=False,
        local_rope=True,
        local_rope_base=10000.0,
        window_period=3,
        full_first=True,
        norm="layer",
        embedding_normed=True,
        activation="gelu",
        names_activation=True,
        rank_pooling="mean",
        classifier_activation="gelu",
    ),
    "neo-bert": Architecture(rope="interleaved", causal=False, output_norm="enc.output_norm"),
    "nomic-bert": Architecture(
        rope="split", causal=False, norm="layer", residual="normed_sums", output_norm=None
    ),
    "nomic-bert-moe": Architecture(
        rope="split",
        causal=False,
        norm="layer",
        residual="normed_sums",
        output_norm=None,
        activation="gelu",
        gated=False,
    ),
    "t5": _T5,  # the encoder; the decoder beside it is left
    "t5encoder": _T5,
}
