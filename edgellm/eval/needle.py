"""A needle in a haystack: one fact somewhere in a long text, asked for at its end.

The text is made here, of sentences that mean little and never repeat the fact, the same for every
model. Asked by continuation, so that no chat template matters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from edgellm.errors import RequestError
from edgellm.llm import Model
from edgellm.types import SamplingParams

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
_ANSWER_TOKENS = 12

_WHO = ("The gardener", "A clerk", "My neighbour", "The captain", "An old teacher", "The baker")
_DID = ("carried", "painted", "counted", "mended", "forgot", "described", "weighed")
_WHAT = ("a wooden ladder", "three grey stones", "the morning paper", "a box of nails", "the map")
_WHERE = ("by the river", "in the attic", "behind the mill", "near the station", "on the hill")
_CITIES = ("Lisbon", "Oslo", "Nairobi", "Quito", "Hanoi", "Tunis", "Perth", "Riga", "Lima", "Turin")


@dataclass(frozen=True)
class Found:
    """Whether the fact at `depth` (0: the start, 1: the end) of so many tokens was told again."""

    tokens: int
    depth: float
    is_found: bool


@dataclass(frozen=True)
class NeedleScore:
    """share: of all tries that were answered. tries: each of them."""

    share: float
    tries: tuple[Found, ...]


def needles(
    model: Model,
    lengths: Sequence[int] | None = None,
    depths: Sequence[float] = DEPTHS,
    watch: Callable[[int, int, float], None] | None = None,
) -> NeedleScore:
    """Hides a number at every depth of texts of so many tokens and asks for it.

    lengths: None is a quarter of the model's context, a half, and all of it. RequestError for one
    that the context does not hold. watch: (tries done, in all, share found so far).
    """
    context = model.info.context_length
    chosen = lengths or (context // 4, context // 2, context)
    params = SamplingParams(temperature=0, max_tokens=_ANSWER_TOKENS, seed=0)
    tries: list[Found] = []
    total = len(chosen) * len(depths)
    for number, (length, depth) in enumerate(product(chosen, depths)):
        city, secret = _CITIES[number % len(_CITIES)], str(1009 + 7919 * (number + 1) % 8999)
        fact = f"The secret number of {city} is"
        question = f"\nQuestion: What is the secret number of {city}?\nAnswer: {fact}"
        needle = f"{fact} {secret}."
        room = length - len(model.tokenize(question)) - _ANSWER_TOKENS
        if length > context or room < len(model.tokenize(needle)) + 1:
            raise RequestError(
                f"a text of {length} tokens: more than the question takes, and at most {context}, "
                "the model's context, are expected",
                "length",
            )
        answer = model.complete(haystack(model, room, depth, needle) + question, params)
        tries.append(Found(length, depth, secret in answer.text))
        if watch:
            watch(len(tries), total, sum(found.is_found for found in tries) / len(tries))
    return NeedleScore(sum(found.is_found for found in tries) / len(tries), tuple(tries))


def haystack(model: Model, tokens: int, depth: float, needle: str) -> str:
    """A text of at most `tokens` tokens with the needle between two of its sentences."""
    sentences: list[str] = []
    used = len(model.tokenize(needle)) + 1
    for number in range(tokens):
        sentence = _sentence(number)
        used += len(model.tokenize(" " + sentence, add_special=False))
        if used > tokens:
            break
        sentences.append(sentence)
    sentences.insert(round(depth * len(sentences)), needle)
    return " ".join(sentences)


def _sentence(number: int) -> str:
    """One of many; neighbours differ, and all come back only after a thousand."""
    parts = []
    for words in (_WHO, _DID, _WHAT, _WHERE):
        parts.append(words[(number * 5 + number // len(words)) % len(words)])
    return f"{' '.join(parts)}."
