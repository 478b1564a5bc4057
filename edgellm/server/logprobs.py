"""Log-probabilities as the APIs write them. Knows no API's frame around them."""

from collections.abc import Sequence
from typing import Any

from edgellm.client import Client
from edgellm.types import TokenLogprob

_LEAST = -9999.0  # for a probability of 0: JSON has no infinity


async def entries(
    client: Client, logprobs: Sequence[TokenLogprob], model: str
) -> list[dict[str, Any]]:
    """An object per token, with its alternatives, as OpenAI, Ollama and llama.cpp all have it."""
    texts = await token_texts(client, logprobs, model)
    return [
        {
            **_entry(own.token_id, own.bytes, own.logprob),
            "top_logprobs": [_entry(token, texts[token], value) for token, value in own.top],
        }
        for own in logprobs
    ]


async def token_texts(
    client: Client, logprobs: Sequence[TokenLogprob], model: str
) -> dict[int, bytes]:
    """What each alternative adds to a text, by its id."""
    ids = sorted({token for own in logprobs for token, _ in own.top})
    if not ids:
        return {}
    return dict(zip(ids, await client.token_bytes(ids, model), strict=True))


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
