"""WordPiece vocabularies: normalisation as in BERT, the longest pieces, whole words or nothing."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.tokenizer import Tokenizer, load_tokenizer
from tests.tokenizer.vocabularies import CONTROL, NORMAL, UNKNOWN, Keys, metadata, open_with
from tests.waiting import PATIENCE

HEAD = [("[PAD]", CONTROL), ("[UNK]", UNKNOWN), ("[CLS]", CONTROL), ("[SEP]", CONTROL)]
HEAD += [("[MASK]", CONTROL)]
WORDS = ["un", "play", "cafe", "的", "!", "i", "a", "hello", "'", "Cafe"]
INSIDE = ["aff", "able", "ing", "s", "a", "b"]
IDS = {"padding_token_id": 0, "unknown_token_id": 1, "cls_token_id": 2, "seperator_token_id": 3}


def wpm(marked_first: bool = True, **more: object) -> Keys:
    """llama.cpp's spelling of a vocabulary, or its first makers'."""
    if marked_first:
        tokens = [*("\u2581" + word for word in WORDS), *INSIDE]
    else:
        tokens = [*WORDS, *("##" + piece for piece in INSIDE)]
    kinds = [kind for _, kind in HEAD] + [NORMAL] * len(tokens)
    return metadata("bert", [*(text for text, _ in HEAD), *tokens], kinds, **IDS, **more)


@pytest.fixture(scope="module", params=[True, False])
def tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Tokenizer:
    return load_tokenizer(open_with(tmp_path_factory.mktemp("wpm"), wpm(request.param)))


def ids(*pieces: str) -> list[int]:
    """Pieces by their first makers' spelling."""
    table = {text: i for i, (text, _) in enumerate(HEAD)}
    table |= {word: len(HEAD) + i for i, word in enumerate(WORDS)}
    table |= {"##" + piece: len(HEAD) + len(WORDS) + i for i, piece in enumerate(INSIDE)}
    return [table[piece] for piece in pieces]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("unaffable", ("un", "##aff", "##able")),
        ("playing plays", ("play", "##ing", "play", "##s")),
        ("  CAFÉ\t\ncafé\u00a0", ("cafe", "cafe")),
        ("cafe!!", ("cafe", "!", "!")),
        ("的的a", ("的", "的", "a")),
        ("hel\u200blo\x00 \ufffdhello", ("hello", "hello")),
        ("a'a", ("a", "'", "a")),
        ("playx", ("[UNK]",)),
        ("x play", ("[UNK]", "play")),
        ("[MASK] play", ("[MASK]", "play")),
        ("i" + "a" * 99, ("i", *("##a",) * 99)),
        ("i" + "a" * 100, ("[UNK]",)),
        ("", ()),
    ],
)
def test_words_and_pieces(tokenizer: Tokenizer, text: str, pieces: tuple[str, ...]) -> None:
    assert tokenizer.encode(text, add_special=False) == ids(*pieces)
    assert tokenizer.encode(text) == ids("[CLS]", *pieces, "[SEP]")


def test_a_pair_has_a_separator_behind_each(tokenizer: Tokenizer) -> None:
    got, second = tokenizer.encode_pair("play", "[SEP] cafe")
    assert second == 3
    assert got[:3] == ids("[CLS]", "play", "[SEP]")
    assert got[-2:] == ids("cafe", "[SEP]")
    assert got.count(3) == 2  # markup in a text is text


def test_files_that_keep_case_and_accents(tmp_path: Path) -> None:
    flags = {"normalizer.lowercase": False}
    cased = load_tokenizer(open_with(tmp_path, wpm(**flags)))
    assert cased.encode("Cafe cafe CAFE", add_special=False) == ids("Cafe", "cafe", "[UNK]")
    assert cased.encode("Café", add_special=False) == ids("[UNK]")
    stripped = wpm(**flags, **{"normalizer.strip_accents": True})
    tokenizer = load_tokenizer(open_with(tmp_path, stripped))
    assert tokenizer.encode("Café", add_special=False) == ids("Cafe")


def test_text_comes_back_as_words(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(open_with(tmp_path, wpm()))
    assert tokenizer.decode(tokenizer.encode("Playing cafe!", False)) == "playing cafe !"


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=40))
def test_any_text_is_words_of_the_vocabulary(tokenizer: Tokenizer, text: str) -> None:
    found = tokenizer.encode(text)
    assert found[:1] == [2] and found[-1:] == [3]
    assert all(0 <= token < tokenizer.vocab_size for token in found)


def test_a_long_text_takes_linear_time(tokenizer: Tokenizer) -> None:
    began = time.monotonic()
    tokenizer.encode("a" * 300_000)
    tokenizer.encode("é的! " * 60_000)
    assert time.monotonic() - began < PATIENCE
