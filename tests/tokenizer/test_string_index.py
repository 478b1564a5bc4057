"""An index finds what a dictionary would, whatever the strings and however their hashes fall."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from edgellm.gguf_loader import StringArray
from edgellm.tokenizer import string_index
from edgellm.tokenizer.string_index import StringIndex

# Some longer than what is hashed, alike up to there.
texts = st.text("ab\0é日", max_size=6) | st.builds(
    "{}{}".format, st.just("x" * 128), st.text("ab", max_size=2)
)


def index_of(strings: list[str]) -> StringIndex:
    return StringIndex(StringArray.of(text.encode() for text in strings))


@given(st.lists(texts, max_size=40), st.lists(texts, max_size=10), st.integers(1, 60))
def test_finds_what_is_there(strings: list[str], others: list[str], many: int) -> None:
    """By the table and, after so many finds, by the dictionary."""
    index = index_of(strings)
    first = {text: i for i, text in reversed(list(enumerate(strings)))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(string_index, "_MANY", many)
        for text in [*strings, *others]:
            assert index.find(text) == first.get(text)
    repeated = index.first_repeat()
    assert (repeated is None) == (len(first) == len(strings))
    if repeated is not None:
        assert repeated[0] < repeated[1]
        assert strings[repeated[0]] == strings[repeated[1]]


@pytest.mark.parametrize("modulus", [3, 2**31 + 1])
def test_tells_strings_of_one_hash_apart(modulus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.array([pow(2, 64 + 8 * place, modulus) for place in range(128)], np.uint64)
    monkeypatch.setattr(string_index, "_MODULUS", modulus)
    monkeypatch.setattr(string_index, "_WEIGHTS", weights)
    strings = [f"{i}" for i in range(300)]
    index = index_of(strings)
    assert [index.find(text) for text in strings] == list(range(300))
    assert index.find("300") is None
    assert index.first_repeat() is None
    assert index_of([*strings, "7", "8"]).first_repeat() == (7, 300)


@given(st.lists(texts, min_size=1, max_size=40), st.integers(1, 5))
def test_many_at_once(strings: list[str], batch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(string_index, "_BATCH", batch)
        index = index_of(strings)
        for asked, held in (strings, True), ([*strings, "never"], False), ([], True):
            array = StringArray.of(text.encode() for text in asked)
            assert index.may_hold(array.buffer, array.offsets, array.lengths) == held
