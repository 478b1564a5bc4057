"""Byte-pair encoding of whole texts, byte-level and plain."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.tokenizer import Tokenizer, load_tokenizer
from edgellm.tokenizer.byte_level import ALPHABET, decode_bytes, encode_bytes
from tests.tokenizer.vocabularies import CONTROL, altered, bpe, gemma4, open_with

MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld"]


def tokens_of(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.decode([i]) for i in tokenizer.encode(text)]


@pytest.fixture
def hello(tmp_path: Path) -> Tokenizer:
    return load_tokenizer(open_with(tmp_path, bpe(MERGES)))


def test_merges_by_rank_inside_words(hello: Tokenizer) -> None:
    assert tokens_of(hello, "hello world") == ["hello", " world"]
    assert tokens_of(hello, "helld") == ["hell", "d"]
    assert tokens_of(hello, "world") == ["w", "or", "ld"]


def test_the_first_of_two_equal_merges_counts(tmp_path: Path) -> None:
    keys = altered(bpe(["a b", "b c"]), merges=["a b", "b c", "a b"])
    assert tokens_of(load_tokenizer(open_with(tmp_path, keys)), "abc") == ["ab", "c"]


def test_missing_rule_is_the_default_with_a_note(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(open_with(tmp_path, altered(bpe(), pre=None)))
    assert tokenizer.pre == "default"
    assert len(tokenizer.notes) == 1
    assert "no tokenizer.ggml.pre" in tokenizer.notes[0]


def test_whole_words_before_merges(tmp_path: Path) -> None:
    """With llama-bpe a word that is a token is taken whole, even if no merge makes it."""
    keys = bpe(["a b"], [("abc", 1)])
    whole = load_tokenizer(open_with(tmp_path, altered(keys, pre="llama-bpe")))
    assert whole.encode("abc", add_special=False) == [257]
    merged = load_tokenizer(open_with(tmp_path, altered(keys, pre="dbrx")))
    assert merged.encode("abc", add_special=False) == [256, ALPHABET.index("c")]


def test_bytes_without_a_token_are_left_out(tmp_path: Path) -> None:
    keys = altered(bpe(), tokens=list(ALPHABET[5:]))
    tokenizer = load_tokenizer(open_with(tmp_path, keys))
    assert tokenizer.encode("\x05\x04\x06") == [0, 1]


def test_kimi_needs_no_merges(tmp_path: Path) -> None:
    keys = altered(bpe(), pre="kimi-k2", merges=None)
    assert load_tokenizer(open_with(tmp_path, keys)).encode("ab") == [0x61, 0x62]


def test_gemma4(tmp_path: Path) -> None:
    keys = gemma4(["▁ b", "\n \n"], "ab▁\n")
    keys["tokenizer.ggml.tokens"].append("\n\n\n")
    keys["tokenizer.ggml.token_type"].value.append(1)
    keys["tokenizer.ggml.pre"] = "llama-bpe"  # what the model is decides, not this
    tokenizer = load_tokenizer(open_with(tmp_path, keys))
    assert tokenizer.pre == "gemma4"
    assert tokenizer.add_bos
    pieces = [tokenizer.decode([i]) for i in tokenizer.encode("a b\n\n\nb", add_special=False)]
    assert pieces == ["a", " b", "\n\n\n", "b"]
    assert tokenizer.encode("é") == [2, 4 + 0xC3, 4 + 0xA9]
    assert tokenizer.decode(tokenizer.encode("é"), skip_special=True) == "é"
    # Four newlines are no token, so they merge.
    assert tokenizer.decode(tokenizer.encode("\n\n\n\n", add_special=False)[:1]) == "\n\n"


def test_byte_alphabet() -> None:
    assert len(set(ALPHABET)) == 256
    assert encode_bytes("a b\né") == "aĠbĊÃ©"
    assert decode_bytes("aĠbĊÃ©") == "a b\né".encode()
    assert decode_bytes("日本") == "日本".encode()
    assert [len(ALPHABET[byte].strip()) for byte in range(256)] == [1] * 256


@settings(max_examples=50)
@given(st.text())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    tokenizer = load_tokenizer(
        open_with(tmp_path_factory.mktemp("bpe"), bpe(MERGES, [("<x>", CONTROL)]))
    )
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode(text, parse_special=False)) == text
