"""The three real models: every golden list of ids, and no text that takes for ever."""

import json
import random
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from edgellm.gguf_loader import open_gguf
from edgellm.tokenizer import Tokenizer, load_tokenizer
from tests.waiting import PATIENCE

GOLDEN = {
    "smollm2": "smollm2-135m-instruct-q4_1.json",
    "gemma3": "gemma3-270m-q4_k_m.json",
    "qwen05b": "qwen2.5-coder-0.5b-instruct-q4_k_m.json",
}


def letters(count: int) -> str:
    return "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=count))


HOSTILE = {
    "one letter": "a" * 131_072,
    "capitals": "A" * 43_000,
    "newlines": "\n" * 5_000,
    "spaces": " " * 100_000 + "x",
    "one long word": letters(100_000),
    "openings": "<|" * 50_000,
    "mixed": "aA1 \n\t!é日" * 10_000,
    "digits": "1" * 100_000,
}


@pytest.fixture(scope="module", params=GOLDEN)
def model(request: pytest.FixtureRequest, real_models: dict[str, Path]) -> tuple[str, Path]:
    if request.param == "smollm2":
        return request.param, request.getfixturevalue("smollm2")
    if request.param not in real_models:
        pytest.skip(f"{request.param}.gguf is not in EDGELLM_TEST_MODELS")
    return request.param, real_models[request.param]


@pytest.fixture(scope="module")
def tokenizer(model: tuple[str, Path]) -> Tokenizer:
    return load_tokenizer(open_gguf(model[1]))


@pytest.fixture
def golden(model: tuple[str, Path], oracle: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((oracle / "models" / GOLDEN[model[0]]).read_text())[
        "tokenize"
    ]
    return cases


def test_golden_ids(tokenizer: Tokenizer, golden: list[dict[str, Any]]) -> None:
    assert len(golden) >= 96
    for case in golden:
        ids = tokenizer.encode(case["text"], case["add_special"], case["parse_special"])
        assert ids == case["ids"], case["text"]


def test_golden_texts_come_back(tokenizer: Tokenizer, golden: list[dict[str, Any]]) -> None:
    for case in golden:
        if not case["add_special"] and "\x00" not in case["text"]:
            assert tokenizer.decode(case["ids"]) == case["text"]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_hangs(tokenizer: Tokenizer, name: str) -> None:
    """Each takes well under a second; anything quadratic takes minutes."""
    text = HOSTILE[name]
    start = perf_counter()
    ids = tokenizer.encode(text, add_special=False)
    assert perf_counter() - start < PATIENCE
    assert tokenizer.decode(ids) == text


def test_splitting_by_words_changes_nothing(tokenizer: Tokenizer) -> None:
    """A text is the same ids whether its words are known from before or not."""
    text = "The quick brown fox, it's 12 o'clock!\nsnake_case CamelCase ünïcödé 日本語 " * 3
    assert tokenizer.encode(text) == tokenizer.encode(text)


def test_special_tokens(model: tuple[str, Path], tokenizer: Tokenizer) -> None:
    expected = {
        "smollm2": (1, 2, {0, 2, 4}, None),
        "gemma3": (2, 1, {1, 106, 212}, None),
        "qwen05b": (151643, 151645, {128247, 151643, 151645, 151662, 151663, 151664}, 151659),
    }
    found = (tokenizer.bos_id, tokenizer.eos_id, set(tokenizer.eog_ids), tokenizer.fim.prefix)
    assert found == expected[model[0]]
    assert tokenizer.notes == ()
