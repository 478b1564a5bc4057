"""Log-probabilities as the APIs write them. Knows no API's frame around them."""

from collections.abc import Sequence
from typing import Any

from edgellm.types import TokenLogprob

_LEAST = -9999.0  # for a probability of 0: JSON has no infinity


def entries(logprobs: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
    """An object per token, with its alternatives, as OpenAI, Ollama and llama.cpp all have it."""
    return [
        {
            **_entry(own.token_id, own.bytes, own.logprob),
            "top_logprobs": [
                _entry(token, piece, value)
                for (token, value), piece in zip(own.top, own.top_bytes, strict=True)
            ],
        }
        for own in logprobs
    ]


def finite(logprob: float) -> float:
    """The log-probability, or the least that is written for none."""
    return max(_LEAST, logprob)


def _entry(token_id: int, piece: bytes, logprob: float) -> dict[str, Any]:
    return {
        "id": token_id,
        "token": piece.decode("utf-8", "replace"),
        "bytes": list(piece),
        "logprob": finite(logprob),
    }
