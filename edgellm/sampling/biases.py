"""logit_bias as users write it, made one number per token id."""

import math
from collections.abc import Callable, Mapping

from edgellm.errors import RequestError

_MAX_DIGITS = 20


def token_biases(
    biases: Mapping[int | str, float] | None, encode: Callable[[str], list[int]], vocab_size: int
) -> dict[int, float]:
    """Bias by token id. Texts of digits are ids, other texts count for each of their tokens.

    RequestError for an id outside the vocabulary.
    """
    found: dict[int, float] = {}
    for name, bias in (biases or {}).items():
        is_id = isinstance(name, int) or (name.isdecimal() and len(name) < _MAX_DIGITS)
        value = -math.inf if bias is False else float(bias)
        for token in [int(name)] if is_id else encode(str(name)):
            if not 0 <= token < vocab_size:
                raise RequestError(
                    f"logit_bias names token {token}: ids are 0 to {vocab_size - 1}", "logit_bias"
                )
            found[token] = value
    return found
