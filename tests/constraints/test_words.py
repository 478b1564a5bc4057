"""The vocabulary for constraints: what its tokens are, and that it is made once and ahead."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import model_loader
from edgellm.constraints import Words
from edgellm.errors import RequestError
from edgellm.loaded_model import LoadedModel
from edgellm.model_loader import ModelLoader
from edgellm.model_source import Source
from edgellm.types import LoadOptions
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
