"""What a model file advises on sampling: its `general.sampling.*` keys. Knows no catalogue."""

from collections.abc import Callable, Mapping
from typing import Any

from edgellm.errors import RequestError
from edgellm.gguf_loader import GGUFFile
from edgellm.options import check
from edgellm.sampling_params import OPTIONS

_PREFIX = "general.sampling."

# The key's last word: the field it sets.
_FIELDS = {
    "sequence": "samplers",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "temp": "temperature",
    "penalty_last_n": "repeat_last_n",
    "penalty_repeat": "repeat_penalty",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}


def advised_by(file: GGUFFile, note: Callable[[str], None]) -> Mapping[str, Any]:
    """Fields of SamplingParams. note: is told of values that cannot be used and are left out."""
    advice = {}
    for key, name in _FIELDS.items():
        value = file.metadata.get(_PREFIX + key)
        if value is None:
            continue
        value = OPTIONS[name].kind.from_json(value)
        try:
            check(OPTIONS[name], value)
        except RequestError as error:
            note(f"the file's {_PREFIX}{key} is not used: {error}")
        else:
            advice[name] = value
    return advice
