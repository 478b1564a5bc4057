"""SentencePiece vocabularies: scores, spaces and bytes."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.tokenizer import Tokenizer, load_tokenizer
from tests.gguf_writer import INT32, array
from tests.tokenizer.vocabularies import CONTROL, USER_DEFINED, altered, metadata, open_with, spm

SCORED = {"▁": -9, "a": -9, "b": -9, "▁a": -3, "ab": -2, "▁ab": -5, "ba": -2, "▁▁": -1}
SPECIAL = [("<x>", CONTROL), ("<y>", USER_DEFINED)]
BOS, BYTES = 1, 3


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return load_tokenizer(open_with(tmp_path, spm(SCORED, SPECIAL)))


def texts(tokenizer: Tokenizer, text: str, parse_special: bool = True) -> list[str]:
    """The tokens as the vocabulary spells them."""
    names = [*SCORED, "<x>", "<y>"]
    ids = tokenizer.encode(text, add_special=False, parse_special=parse_special)
    return [names[i - 259] if i >= 259 else f"{i - BYTES:02X}" for i in ids]


def test_the_highest_score_merges_first(tokenizer: Tokenizer) -> None:
    # "ab" (-2) goes before "▁a" (-3), and then "▁ab" is a token.
    assert texts(tokenizer, "ab") == ["▁ab"]
    # "ab" and "ba" score the same: the leftmost.
    assert texts(tokenizer, "aba") == ["▁ab", "a"]


def test_space_prefix(tokenizer: Tokenizer) -> None:
    assert texts(tokenizer, "a") == ["▁a"]
    assert texts(tokenizer, " a") == ["▁▁", "a"]
    assert texts(tokenizer, "<x>a<y>a") == ["<x>", "▁a", "<y>", "▁a"]
    assert texts(tokenizer, "") == []


def test_no_space_prefix(tmp_path: Path) -> None:
    keys = spm(SCORED, SPECIAL, add_space_prefix=False)
    tokenizer = load_tokenizer(open_with(tmp_path, keys))
    assert texts(tokenizer, "a<x>a a") == ["a", "<x>", "a", "▁a"]
    assert tokenizer.decode(tokenizer.encode(" a", add_special=False)) == " a"


def test_control_tokens_are_text_unless_parsed(tokenizer: Tokenizer) -> None:
    assert texts(tokenizer, "a<y>b", parse_special=False) == ["▁a", "<y>", "▁", "b"]
    assert "<x>" not in texts(tokenizer, "a<x>b", parse_special=False)


def test_bytes_for_what_is_no_token(tokenizer: Tokenizer) -> None:
    assert texts(tokenizer, "é") == ["▁", "C3", "A9"]
    assert tokenizer.decode(tokenizer.encode("é", add_special=False)) == "é"


def test_the_unknown_token_where_there_are_no_bytes(tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", "a", "\n"]
    keys = metadata("llama", tokens, [2, 3, 3, 1, 1], scores=[0.0] * 5, add_space_prefix=False)
    tokenizer = load_tokenizer(open_with(tmp_path, keys))
    assert tokenizer.encode("aé\n", add_special=False) == [3, 0, 0, 4]


def test_the_first_space_is_not_the_texts_own(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a a", add_special=False)
    assert tokenizer.decode(ids) == "a a"
    assert tokenizer.token_bytes(ids[0]) == b" a"
    # Only of the very first token, and only one.
    assert tokenizer.decode([BOS, *ids]) == "<s> a a"
    assert tokenizer.decode([BOS, *ids], skip_special=True) == " a a"
    assert tokenizer.decode(tokenizer.encode("  a", add_special=False)) == "  a"


def test_defaults(tokenizer: Tokenizer) -> None:
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (1, 2, 0)
    assert tokenizer.add_bos
    assert not tokenizer.add_eos
    assert tokenizer.encode("a") == [BOS, *tokenizer.encode("a", add_special=False)]


def test_integer_scores(tmp_path: Path) -> None:
    keys = spm(SCORED)
    scores = [int(score) for score in keys["tokenizer.ggml.scores"]]
    tokenizer = load_tokenizer(open_with(tmp_path, altered(keys, scores=array(INT32, scores))))
    assert texts(tokenizer, "aba") == ["▁ab", "a"]


@settings(max_examples=50)
@given(st.text())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("spm")
    tokenizer = load_tokenizer(open_with(folder, spm(SCORED, add_space_prefix=False)))
    ids = tokenizer.encode(text, add_special=False, parse_special=False)
    assert tokenizer.decode(ids) == text.replace("▁", " ")
