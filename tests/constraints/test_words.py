"""The vocabulary for constraints: what its tokens are, and that it is made once and ahead."""

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import model_loader
from edgellm.constraints import Words, compile_constraint
from edgellm.errors import RequestError
from edgellm.gguf_loader import open_gguf
from edgellm.loaded_model import LoadedModel
from edgellm.model_loader import ModelLoader
from edgellm.model_source import Source
from edgellm.tokenizer import Tokenizer, load_tokenizer
from edgellm.types import LoadOptions, SamplingParams
from tests.gguf_writer import write_gguf
from tests.mock_model import ByteTokenizer, MockModel, make_model, says
from tests.waiting import PATIENCE


def pieces_of(words: Words, kinds: tuple[Any, ...]) -> list[bytes]:
    return [b"".join(words.piece(i) for i in kind[:9]) for kind in kinds]


def test_what_closes_comes_before_what_goes_on() -> None:
    words = Words(ByteTokenizer())  # type: ignore[arg-type]
    assert pieces_of(words, words.outside_text) == [b"<special>", b"]}", b"", b'"', b",:", b"[{"]
    inside = pieces_of(words, words.inside_text)
    assert inside[:4] == [b'"', b"@", b"Zz", b"-./:"] and inside[5] == b"ABCDEFGHI"
    assert not {0, 92, 128, 256}.intersection(np.concatenate(words.inside_text).tolist())


def spaced(folder: Path, model: str) -> Tokenizer:
    """One that puts a space before a text, unless other text comes before it."""
    pieces = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "c", "ab", "\u2581a"]
    keys = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": model,
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": np.arange(len(pieces), dtype=np.float32),
        "tokenizer.ggml.token_type": np.array([2, 3, 3, 1, 1, 1, 1, 1, 1], np.int32),
        "tokenizer.ggml.eos_token_id": 2,
    }
    with open_gguf(write_gguf(folder / "vocabulary.gguf", keys, [])) as file:
        return load_tokenizer(file)


@pytest.mark.parametrize("model", ["llama", "t5"])
@pytest.mark.parametrize(
    "params",
    [{"choices": ("abc", "abab")}, {"choices": ("a b",)}, {"regex": "c(abc|b)"}, {"regex": "abc "}],
)
def test_forms_are_followed_where_texts_begin_with_a_space(
    tmp_path: Path, model: str, params: dict[str, Any]
) -> None:
    tokenizer = spaced(tmp_path, model)
    assert tokenizer.space_prefix
    words = Words(tokenizer)
    constraint = compile_constraint(SamplingParams(**params), lambda: words)
    assert constraint is not None
    said = b""
    while not constraint.is_complete:
        tokens = constraint.forced()
        if not tokens:
            tokens = [int(constraint.allowed(tokenizer.vocab_size).argmax())]
            constraint.accept(tokens[0])
        said += b"".join(words.piece(token) for token in tokens if token not in words.eog_ids)
    wanted = params.get("regex") or "|".join(params["choices"])
    assert re.fullmatch(wanted, said.decode())


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"choices": ("dog",)}, "choices must go on with 'd', which this model has no token for"),
        ({"choices": ("adog",)}, "choices must go on with 'd', which this model"),
        ({"json_schema": {"type": "boolean"}}, "json_schema matches no text that this model has"),
    ],
)
def test_letters_that_no_token_has_are_named(
    tmp_path: Path, params: dict[str, Any], said: str
) -> None:
    words = Words(spaced(tmp_path, "llama"))
    with pytest.raises(RequestError, match=said):
        constraint = compile_constraint(SamplingParams(**params), lambda: words)
        assert constraint is not None
        constraint.forced()


def test_a_vocabulary_without_an_end_is_refused() -> None:
    class Endless(ByteTokenizer):
        eog_ids = frozenset()

    with pytest.raises(RequestError, match="no token that ends an answer"):
        Words(Endless())  # type: ignore[arg-type]


def test_it_is_made_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go, made = threading.Event(), threading.Event(), list[object]()

    def slow(tokenizer: object) -> object:
        begun.set()
        assert go.wait(PATIENCE)
        made.append(object())
        return made[-1]

    monkeypatch.setattr("edgellm.loaded_model.Words", slow)
    model, found = make_model(MockModel(says("x"))), list[object]()
    threads = [threading.Thread(target=lambda: found.append(model.words)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(PATIENCE)
    go.set()
    for thread in threads:
        thread.join()
    assert found == made * 4


@pytest.mark.parametrize("expected", [True, False])
def test_it_is_made_ahead_where_it_will_be_wanted(
    expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = threading.Event()

    def words(tokenizer: object) -> object:
        made.set()
        return object()

    def load(*given: object) -> LoadedModel:
        return make_model(MockModel(says("x")))

    monkeypatch.setattr("edgellm.loaded_model.Words", words)
    monkeypatch.setattr(model_loader, "load_model", load)
    loader = ModelLoader(None, print, LoadOptions(), expects_forms=expected)  # type: ignore[arg-type]
    loader.load(Source(Path("x"), "x", LoadOptions(), {}), None)
    assert made.wait(PATIENCE if expected else 0.05) is expected
