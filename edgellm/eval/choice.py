"""Multiple choice by likelihood: the choice that a model finds the least surprising.

Tasks are JSON lines in the forms that evaluation harnesses use: a text ("question", "query", "ctx",
"prompt" or "sentence"), "choices" (a list, or {"text": [...], "label": [...]}) or "endings", and
the right one ("gold", "label", "answer" or "answerKey") as a number from 0 or a label. Choices are
compared as lm-evaluation-harness does: the sum of the log-probabilities of a choice's tokens
after the text, and the same divided by its length in characters.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.errors import RequestError
from edgellm.llm import Model
from edgellm.sampling import logprobs

_TEXTS = ("query", "question", "ctx", "prompt", "sentence")
_CHOICES = ("choices", "endings")
_GOLD = ("gold", "answerKey", "answer", "label")
_LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True)
class Item:
    """A text and what may follow it; gold: the number of the right choice."""

    text: str
    choices: tuple[str, ...]
    gold: int


@dataclass(frozen=True)
class ChoiceScore:
    """Shares of items whose right choice is the likeliest: as it is, and for its length.

    error: the standard error of `accuracy`. chance: the accuracy of guessing.
    """

    accuracy: float
    accuracy_norm: float
    error: float
    chance: float
    items: int


def read_items(lines: Iterable[str], name: str) -> tuple[Item, ...]:
    """Items of JSON lines; RequestError names the line that is none. name: of the file."""
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{name}, line {number}"
            try:
                found.append(_item(json.loads(line), where))
            except (ValueError, RecursionError) as error:
                raise RequestError(f"{where}: no JSON: {error}", "file") from None
    if not found:
        raise RequestError(f"{name} has no items: expected one JSON object on each line", "file")
    return tuple(found)


def _item(record: Any, where: str) -> Item:
    if not isinstance(record, dict):
        raise RequestError(f"{where}: expected an object, found {type(record).__name__}", "file")
    key, text = _first(record, _TEXTS, where)
    choices: Any = _first(record, _CHOICES, where)[1]
    labels: Any = None
    if isinstance(choices, dict):
        labels, choices = choices.get("label"), choices.get("text")
    if not (_are_texts(text, *(choices if isinstance(choices, list) else [None]))):
        raise RequestError(f"{where}: expected a text and a list of texts to choose from", "file")
    if len(choices) < 2 or not all(choices):
        raise RequestError(f"{where}: expected two choices or more, none of them empty", "file")
    gold = _gold(_first(record, _GOLD, where)[1], labels, len(choices), where)
    if key == "question":
        text = f"Question: {text}\nAnswer:"
    return Item(text, tuple(choices), gold)


def _first(record: Mapping[str, Any], keys: Sequence[str], where: str) -> tuple[str, Any]:
    for key in keys:
        if key in record:
            return key, record[key]
    raise RequestError(f"{where}: has none of {', '.join(keys)}", "file")


def _are_texts(*values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _gold(value: Any, labels: Any, count: int, where: str) -> int:
    """The number of the right choice, given as such, as its label or as a letter."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    known = labels if isinstance(labels, list) and len(labels) == count else list(_LETTERS[:count])
    if value in known and not isinstance(value, bool):
        return int(known.index(value))
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if type(number) is int and 0 <= number < count:
        return number
    raise RequestError(f"{where}: {value!r} is none of the {count} choices", "file")


def multiple_choice(
    model: Model, items: Sequence[Item], watch: Callable[[int, int, float], None] | None = None
) -> ChoiceScore:
    """Scores every item. watch: (items done, items in all, accuracy so far).

    ContextOverflow for an item that the context does not hold.
    """
    plain: list[bool] = []
    normed: list[bool] = []
    for item in items:
        likely = np.array([_log_probability(model, item.text, c) for c in item.choices])
        lengths = np.array([len(choice) for choice in item.choices])
        plain.append(int(likely.argmax()) == item.gold)
        normed.append(int((likely / lengths).argmax()) == item.gold)
        if watch:
            watch(len(plain), len(items), float(np.mean(plain)))
    accuracy = float(np.mean(plain))
    return ChoiceScore(
        accuracy=accuracy,
        accuracy_norm=float(np.mean(normed)),
        error=float(np.sqrt(accuracy * (1 - accuracy) / max(1, len(plain) - 1))),
        chance=float(np.mean([1 / len(item.choices) for item in items])),
        items=len(items),
    )


def _log_probability(model: Model, text: str, choice: str) -> float:
    """Of the tokens that a choice adds to its text, after a blank."""
    stem = text.rstrip()
    before = model.tokenize(stem)
    ids = model.tokenize(f"{stem} {choice}")
    start = max(1, min(len(before), len(ids) - 1))
    found = 0.0

    def add(position: int, rows: npt.NDArray[np.float32]) -> None:
        nonlocal found
        for offset, row in enumerate(rows, position + 1):
            found += logprobs(row, ids[offset], 0)[0]

    model.score(ids[:-1], add, start - 1)
    return found
