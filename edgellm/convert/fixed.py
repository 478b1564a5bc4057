"""Settings that GGUF has no key for: an architecture has its own value, and a checkpoint with
another one is refused. Knows no tensors."""

from collections.abc import Mapping

from edgellm.convert.keys import Keys
from edgellm.convert.settings import Settings
from edgellm.models.activation_config import NAMES
from edgellm.models.registry import ARCHITECTURES

_ACTIVATION = (
    *("hidden_act", "hidden_activation", "mlp_hidden_act"),
    *("activation_function", "activation"),
)
_GELU = ("gelu", "gelu_tanh")  # ggml's of both are alike
# Under the names of transformers, what stands in the table of architectures.
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("silu", "swish"), ("silu", "swiglu_clamped")),
    **dict.fromkeys(("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python"), _GELU),
    "quick_gelu": ("gelu_quick",),
    "relu": ("relu",),
    "relu2": ("relu2",),
    "swiglu": ("silu",),
}


def activation_key(settings: Settings, architecture: str) -> Keys:
    """Of an architecture whose files name their activation, where it is another than usual.

    GGUFError for an activation that the architecture does not have.
    """
    row = ARCHITECTURES[architecture]
    name = next((n for n in _ACTIVATION if settings.text(n) is not None), None)
    given = settings.text(name) if name else None
    if not name or not given or row.xielu or row.activation in _ACTIVATIONS.get(given, ()):
        return {}
    if row.names_activation and given in NAMES:
        return {"hidden_activation": given}
    raise settings.wrong(name, given, f"{row.activation}, which is that of {architecture}")


def check_fixed(settings: Settings, architecture: str) -> None:
    """GGUFError for another setting whose value the architecture does not have."""
    row = ARCHITECTURES[architecture]
    for name in ("norm_topk_prob", "moe_renormalize"):
        if row.normalize_gates and not settings.flag(name, True):
            expected = f"true: {architecture} divides the weights of experts by their sum"
            raise settings.wrong(name, False, expected)
    if settings.rope_kind == "yarn":
        truncate = settings.rope.flag("truncate", True)
        if truncate != row.yarn_truncate:
            expected = f"{row.yarn_truncate}, which is that of {architecture}"
            raise settings.wrong("rope_parameters.truncate", truncate, expected)
