"""RWKV vocabularies: escapes and the longest match."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.errors import GGUFError, RequestError
from edgellm.tokenizer import Tokenizer, load_tokenizer
from edgellm.tokenizer.rwkv import unescape
from tests.tokenizer.vocabularies import CONTROL, NORMAL, Keys, metadata, open_with

BYTES = [f"\\x{byte:02x}" for byte in range(256)]
WORDS = ["ab", "abcde", " a", "\\n\\n", "caf\\xc3", "\\\\t", "é"]


def rwkv(tokens: list[str], **more: object) -> Keys:
    """<s>, then the tokens as a file writes them."""
    return metadata("rwkv", ["<s>", *tokens], [CONTROL] + [NORMAL] * len(tokens), **more)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(open_with(tmp_path_factory.mktemp("rwkv"), rwkv(BYTES + WORDS)))


@pytest.mark.parametrize(
    ("written", "expected"),
    [("a", b"a"), ("\\t\\n\\r", b"\t\n\r"), ("\\x00\\xFf", b"\0\xff"), ("\\'\\\\x", b"'\\x")],
)
def test_escapes(written: str, expected: bytes) -> None:
    assert unescape(written) == expected


def word(text: str) -> int:
    return 257 + WORDS.index(text)


def test_the_longest_token_is_taken(tokenizer: Tokenizer) -> None:
    def byte(text: str) -> int:
        return 1 + ord(text)

    assert tokenizer.encode("abcde") == [word("abcde")]
    assert tokenizer.encode("abcd") == [word("ab"), byte("c"), byte("d")]
    assert tokenizer.encode("\n\n\n") == [word("\\n\\n"), byte("\n")]
    assert tokenizer.encode("\\t a") == [word("\\\\t"), word(" a")]
    assert tokenizer.encode("café") == [word("caf\\xc3"), 1 + 0xA9]
    assert tokenizer.encode("<s>é") == [0, word("é")]


@settings(max_examples=50, deadline=None)
@given(text=st.text(alphabet="abcde é\n\\t☃", max_size=20))
def test_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_byte_without_a_token(tmp_path: Path) -> None:
    bare = load_tokenizer(open_with(tmp_path, rwkv(["a"])))
    with pytest.raises(RequestError, match="0x62 of the text"):
        bare.encode("ab")
    with_unknown = load_tokenizer(open_with(tmp_path, rwkv(["a", "?"], unknown_token_id=2)))
    assert with_unknown.encode("aba") == [1, 2, 1]


def test_a_token_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GGUFError, match="token 1 has 2000 bytes"):
        load_tokenizer(open_with(tmp_path, rwkv(["a" * 2000])))
