"""Multiple choice: the forms of task files, and likelihoods straight from the logits."""

import json
from typing import Any

import numpy as np
import pytest

from edgellm.cli import eval_tasks
from edgellm.errors import RequestError
from edgellm.eval.choice import Item, multiple_choice, read_items
from edgellm.llm import Model
from tests.mock_model import BOS, MockModel, make_manager, noise

TEXTS = ("a", "bc", "d")


def mock() -> Model:
    manager = make_manager(MockModel(noise))
    return Model(manager, manager.models()[0])


@pytest.mark.parametrize(
    ("record", "text", "gold"),
    [
        ({"query": "Q", "choices": TEXTS, "gold": 1}, "Q", 1),
        ({"query": "Q", "choices": TEXTS, "gold": [2]}, "Q", 2),
        ({"question": "Q", "choices": TEXTS, "answer": "B"}, "Question: Q\nAnswer:", 1),
        ({"ctx": "Q", "endings": TEXTS, "label": "2"}, "Q", 2),
        (
            {
                "question": "Q",
                "choices": {"text": TEXTS, "label": ["1", "2", "3"]},
                "answerKey": "3",
            },
            "Question: Q\nAnswer:",
            2,
        ),
        ({"prompt": "Q", "choices": TEXTS, "answer": "bc", "label": 1}, "Q", 1),
    ],
)
def test_forms_of_tasks(record: dict[str, Any], text: str, gold: int) -> None:
    if record.get("answer") == "bc":  # a text is no label
        with pytest.raises(RequestError, match="'bc' is none of the 3 choices"):
            read_items([json.dumps(record)], "f")
        return
    assert read_items(["", json.dumps(record), "  "], "f") == (Item(text, TEXTS, gold),)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "f, line 1: no JSON"),
        ("[1]", "expected an object, found list"),
        ('{"choices": ["a", "b"], "gold": 0}', "has none of query, question"),
        ('{"query": "q", "gold": 0}', "has none of choices, endings"),
        ('{"query": "q", "choices": ["a", 1], "gold": 0}', "a list of texts"),
        ('{"query": "q", "choices": {"label": []}, "gold": 0}', "a list of texts"),
        ('{"query": "q", "choices": ["a"], "gold": 0}', "two choices or more"),
        ('{"query": "q", "choices": ["a", ""], "gold": 0}', "two choices or more"),
        ('{"query": "q", "choices": ["a", "b"]}', "has none of gold"),
        ('{"query": "q", "choices": ["a", "b"], "gold": 2}', "2 is none of the 2"),
        ('{"query": "q", "choices": ["a", "b"], "gold": true}', "True is none"),
        ("[" * 100_000, "no JSON"),
        ("", "has no items"),
    ],
)
def test_what_is_no_task_is_named(line: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        read_items([line], "f")


def test_the_likeliest_is_that_of_the_logits() -> None:
    items = [Item("What is it?", ("one", "fifteen", "two"), i) for i in range(3)]
    sums = []
    for choice in items[0].choices:
        ids = [BOS, *f"What is it? {choice}".encode()]
        start = len("What is it?") + 1
        found = 0.0
        for position in range(start, len(ids)):
            row = noise(ids[:position], 0).astype(float)
            found += row[ids[position]] - np.log(np.exp(row).sum())
        sums.append(found)
    normed = np.array(sums) / [len(choice) for choice in items[0].choices]
    seen: list[tuple[int, int, float]] = []
    with mock() as model:
        score = multiple_choice(model, items, lambda *progress: seen.append(progress))
        for item in items:
            alone = multiple_choice(model, [item])
            assert alone.accuracy == (int(np.argmax(sums)) == item.gold)
            assert alone.accuracy_norm == (int(np.argmax(normed)) == item.gold)
    assert score.accuracy == score.accuracy_norm == score.chance == pytest.approx(1 / 3)
    assert seen[-1] == (3, 3, score.accuracy) and score.items == 3


def test_our_own_tasks_are_good() -> None:
    items = read_items(eval_tasks.lines(None, eval_tasks.CHOICE), "own")
    golds = [item.gold for item in items]
    assert all(len(set(item.choices)) == len(item.choices) == 4 for item in items)
    assert max(map(golds.count, range(4))) < 0.45 * len(items)
