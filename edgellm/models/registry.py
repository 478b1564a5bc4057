"""The architectures by the name that files carry. Rows stand in `families/`, a file per kind.

The names in those tables are the only place where an architecture's name means anything. What a
file itself tells (biases, q and k norms, norms after a block, experts, tied output) is found by
the presence of tensors and is not written there.
"""

from collections.abc import Mapping

from edgellm.errors import GGUFError
from edgellm.models.architecture import Architecture
from edgellm.models.families import dense, encoders, experts, recurrent

ARCHITECTURES: Mapping[str, Architecture] = {
    **dense.ROWS,
    **experts.ROWS,
    **recurrent.ROWS,
    **encoders.ROWS,
}

_PROJECTOR = "a multimodal projector, the image or audio encoder beside a language model's file"
_IMAGES = "a model that generates images or video"

# Files that users meet beside language models, by architecture, and what they are.
NO_LANGUAGE_MODELS: Mapping[str, str] = {
    "clip": _PROJECTOR,
    "mmproj": _PROJECTOR,
    "wavtokenizer-dec": "a vocoder: it turns audio tokens into sound",
    "whisper": "a speech recogniser",
    **dict.fromkeys(
        ("eagle3", "dflash", "gemma4-assistant"),
        "a drafter, which guesses tokens ahead for another model",
    ),
    **dict.fromkeys(
        ("flux", "sd1", "sdxl", "sd3", "aura", "ltxv", "hyvid", "wan", "cosmos", "hidream",
         "lumina2", "qwen_image"),
        _IMAGES,
    ),
}  # fmt: skip

_DIFFUSION = "it generates text by diffusion, all tokens at once in several passes, not one by one"
_SPARSE = "an indexer picks the tokens that attention sees"
_STREAMS = "the residual stream is several that mix by hyper-connections"

# Language models that are known and not run, and why.
NOT_RUN: Mapping[str, str] = {
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1", "diffusion-gemma"), _DIFFUSION),
    **dict.fromkeys(
        ("deepseek4", "deepseek41"), f"{_SPARSE}, out of keys that were compressed; {_STREAMS}"
    ),
    "glm5-next": f"{_SPARSE}, in pools; {_STREAMS}",
    "hy_v4": f"{_SPARSE}; {_STREAMS}",
    "qwen4exp": f"tokens bring embeddings of what is before them; {_STREAMS}",
    "kimi-k3": "its layers attend to the outputs of layers before them, and its experts to latents",
    "chameleon": "a key moves its norms, and scores of image tokens are to be left out",
    "clef": "it makes decisions, not text",
    "graniteswitch": "adapters that its own tokens switch lie in the file",
    **dict.fromkeys(("qwen3tts", "pockettts"), "it makes sound from text"),
    "gptj": "no tool writes complete files of it",
}

# By general.type: files that go with a model and may carry its architecture's name.
PARTS: Mapping[str, str] = {
    "mmproj": _PROJECTOR,
    "adapter": "an adapter (LoRA), which goes with a model's file",
    "imatrix": "an importance matrix, which tools that quantise read",
}


def refuse_parts(kind: str | None) -> None:
    """GGUFError that says what the file is, where `general.type` names a part of a model."""
    if kind is not None and kind in PARTS:
        raise GGUFError(f"the file holds {PARTS[kind]}: give the file of a language model")


def architecture(name: str) -> Architecture:
    """The row of `name`; GGUFError that says what the file is, what is missing for it, or the names
    that are known.
    """
    if name in NO_LANGUAGE_MODELS:
        raise GGUFError(
            f"the file holds {NO_LANGUAGE_MODELS[name]} (architecture {name!r}): "
            "give the file of a language model"
        )
    if name in NOT_RUN:
        raise GGUFError(f"architecture {name!r} is not supported: {NOT_RUN[name]}")
    if name not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise GGUFError(f"architecture {name!r} is not supported; edgellm runs: {known}")
    return ARCHITECTURES[name]
