"""Kinds of values that only settings of sampling have: an order of samplers, biases, a schema.

How each is checked, and read from words and from JSON. Knows nothing of which settings there are.
"""

import math
from collections.abc import Mapping
from typing import Any

from edgellm.options import Kind, are_texts, is_number, is_text, is_whole, read_text

# Every sampler with llama.cpp's letter for it.
SAMPLERS: Mapping[str, str] = {
    "penalties": "e",
    "dry": "d",
    "top_n_sigma": "s",
    "top_k": "k",
    "typ_p": "y",
    "top_p": "p",
    "min_p": "m",
    "xtc": "x",
    "temperature": "t",
    "adaptive_p": "a",
    "infill": "i",
}
_LARGEST = 1e30  # bias: sums of some are numbers, too
_ALIASES = {
    "typical_p": "typ_p",
    "typical": "typ_p",
    "typ": "typ_p",
    "nucleus": "top_p",
    "temp": "temperature",
}
DEFAULT_SAMPLERS = tuple(name for name in SAMPLERS if name not in ("adaptive_p", "infill"))


def _names(value: Any) -> Any:
    """Names joined by ";", llama.cpp's letters, or a list of names; other spellings made ours."""
    if isinstance(value, str):
        letters = {letter: name for name, letter in SAMPLERS.items()}
        is_short = set(value) <= letters.keys()
        value = [letters[c] for c in value] if is_short else value.strip("; ").split(";")
    if not isinstance(value, list):
        return value
    spelled = [v.strip().replace("-", "_") if isinstance(v, str) else v for v in value]
    return tuple(_ALIASES.get(v, v) if isinstance(v, str) else v for v in spelled)


def _are_biases(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        (is_whole(token) or is_text(token))
        and (bias is False or bias == -math.inf or (is_number(bias) and abs(bias) <= _LARGEST))
        for token, bias in value.items()
    )


def _bias_from_text(text: str) -> dict[int | str, float]:
    """llama.cpp's form: token id or text, sign, number, such as 15043+1 or 15043-inf."""
    at = max(text.rfind("+"), text.rfind("-"))
    if at < 1:
        raise ValueError
    return {text[:at]: float(text[at:])}


def _biases_from_json(value: Any) -> Any:
    """A mapping in place of a list of [token, bias]."""
    if isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int | str)
        for pair in value
    ):
        return dict(value)
    return value


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping | bool) or is_text(value)


ORDER = Kind("samplers", "a tuple", "A;B;C", are_texts, _names, _names)
BIASES = Kind(
    "biases",
    "a mapping of token ids or texts to numbers",
    "TOKEN+N",
    _are_biases,
    _bias_from_text,
    _biases_from_json,
)
SCHEMA = Kind("schema", "a JSON Schema, as a mapping or a text,", "TEXT", _is_schema, read_text)
