"""The architectures: one row each. The only place where an architecture's name means anything.

What a file itself tells (biases, q and k norms, norms after a block, experts, tied output) is
found by the presence of tensors and is not written here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgellm.errors import GGUFError
from edgellm.kernels.ops import Activation, Gating, RopeLayout

if TYPE_CHECKING:
    from edgellm.models.config import ModelConfig


@dataclass(frozen=True)
class Architecture:
    """How one family differs from a plain pre-norm decoder with grouped-query attention.

    rope: which dimensions form a pair. local_rope_base: windowed layers rotate with this base
    (a key may say another) and without scaling; None: as all others. yarn_truncate: see
    RopeScaling. window_period: of so many layers the last sees everything and the others a
    sliding window; 1: none is windowed. attention_width: attention scores are divided by its
    square root; None: head_dim. scaled_embedding: embeddings are multiplied by
    sqrt(hidden_size). final_softcap: the file's soft cap of the logits applies.
    gating, normalize_gates: how experts are weighted. activation_alpha, activation_limit: see
    Builder.gated.
    """

    rope: RopeLayout
    local_rope_base: float | None = None
    yarn_truncate: bool = True
    window_period: int = 1
    attention_width: Callable[["ModelConfig"], float] | None = None
    scaled_embedding: bool = False
    final_softcap: bool = False
    activation: Activation = "silu"
    activation_alpha: float = 1.0
    activation_limit: float = float("inf")
    gating: Gating = "softmax"
    normalize_gates: bool = False


def _gemma3_attention_width(config: "ModelConfig") -> float:
    """The 27B model, the one of 62 layers, scales by hidden size per head."""
    is_27b = config.num_layers == 62
    return config.hidden_size / config.num_heads[0] if is_27b else config.head_dim


ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture(rope="interleaved", normalize_gates=True),
    "qwen2": Architecture(rope="split"),
    "gemma3": Architecture(
        rope="split",
        local_rope_base=10000.0,
        window_period=6,
        attention_width=_gemma3_attention_width,
        scaled_embedding=True,
        final_softcap=True,
        activation="gelu_tanh",
    ),
    "gpt-oss": Architecture(
        rope="split",
        yarn_truncate=False,
        window_period=2,
        activation="swiglu_clamped",
        activation_alpha=1.702,
        activation_limit=7.0,
        gating="softmax_selected",
    ),
}


def architecture(name: str) -> Architecture:
    """The row of `name`; GGUFError with the names that are known."""
    if name not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise GGUFError(f"architecture {name!r} is not supported; edgellm runs: {known}")
    return ARCHITECTURES[name]
