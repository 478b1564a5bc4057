"""The architectures by the name that files carry. Rows stand in `families/`, a file per kind.

The names in those tables are the only place where an architecture's name means anything. What a
file itself tells (biases, q and k norms, norms after a block, experts, tied output) is found by
the presence of tensors and is not written there.
"""

from collections.abc import Mapping

from edgellm.errors import GGUFError
from edgellm.models.architecture import Architecture
from edgellm.models.families import dense, experts, recurrent

ARCHITECTURES: Mapping[str, Architecture] = {**dense.ROWS, **experts.ROWS, **recurrent.ROWS}

# Files that users meet beside language models, and what they are.
_IMAGES = "a model that generates images or video"
NO_LANGUAGE_MODELS: Mapping[str, str] = {
    "clip": "a multimodal projector: the image or audio encoder that goes with a language model's "
    "file, not a language model",
    "mmproj": "a multimodal projector: the image or audio encoder that goes with a language "
    "model's file, not a language model",
    "wavtokenizer-dec": "a vocoder: it turns audio tokens into sound",
    "whisper": "a speech recogniser",
    **dict.fromkeys(
        ("flux", "sd1", "sdxl", "sd3", "aura", "ltxv", "hyvid", "wan", "cosmos", "hidream",
         "lumina2", "qwen_image"),
        _IMAGES,
    ),
}  # fmt: skip


def architecture(name: str) -> Architecture:
    """The row of `name`; GGUFError that says what the file is, or the names that are known."""
    if name in NO_LANGUAGE_MODELS:
        raise GGUFError(
            f"the file holds {NO_LANGUAGE_MODELS[name]} (architecture {name!r}): "
            "give the file of a language model"
        )
    if name not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise GGUFError(f"architecture {name!r} is not supported; edgellm runs: {known}")
    return ARCHITECTURES[name]
