"""Ids to text as they come: whole characters, stop strings held back, nothing lost."""

import pytest
from hypothesis import given, strategies as st

from edgellm.detokenize import Detokenizer
from edgellm.errors import RequestError
from edgellm.tokenizer import Tokenizer, load_tokenizer
from tests.tokenizer.vocabularies import CONTROL, bpe, open_with, spm

SPECIAL = 260


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Bytes, "ab", "abc", "aba", " ab" and a control token."""
    merges = ["a b", "ab c", "ab a", "Ġ ab"]
    folder = tmp_path_factory.mktemp("vocabulary")
    return load_tokenizer(open_with(folder, bpe(merges, [("<x>", CONTROL)])))


@pytest.fixture(scope="module")
def spaced(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("vocabulary")
    return load_tokenizer(open_with(folder, spm({"▁": 0.0, "a": 0.0, "▁a": 1.0})))


def by_the_rule(text: str, stop: tuple[str, ...]) -> str:
    """Letter by letter: the text before the first moment at which it ends with a stop string."""
    for end in range(len(text) + 1):
        met = [s for s in stop if text[:end].endswith(s)]
        if met:
            return text[: end - max(map(len, met))]
    return text


ids = st.lists(
    st.sampled_from([*b"abc ", 0xC3, 0xA9, 0xF0, 0x9F, 0x99, 0x82, 0xFF, 256, 257, 258, 259, 260]),
    max_size=25,
)
stops = st.lists(st.text("abc é\ufffd<", min_size=1, max_size=4), max_size=3).map(tuple)


@given(ids=ids, stop=stops, skip=st.booleans())
def test_all_pieces_are_the_text(
    tokenizer: Tokenizer, ids: list[int], stop: tuple[str, ...], skip: bool
) -> None:
    detokenizer = Detokenizer(tokenizer, stop, skip_special=skip)
    pieces = [detokenizer.push(i) for i in ids]
    text = "".join(pieces) + detokenizer.flush()
    whole = tokenizer.decode(ids, skip_special=skip)
    assert text == by_the_rule(whole, stop)
    assert detokenizer.stopped == any(s in whole for s in stop)
    assert detokenizer.flush() == ""


@given(ids=ids)
def test_without_stop_strings_nothing_waits(tokenizer: Tokenizer, ids: list[int]) -> None:
    """Only the bytes of a character that may go on are held: at most three."""
    detokenizer = Detokenizer(tokenizer)
    text = ""
    for count, token_id in enumerate(ids, 1):
        text += detokenizer.push(token_id)
        whole = tokenizer.decode(ids[:count], skip_special=True)
        assert whole.removeprefix(text) in ("", "\ufffd")


def test_half_characters_wait(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    assert [detokenizer.push(byte) for byte in "🙂é".encode()] == ["", "", "", "🙂", "", "é"]
    assert detokenizer.push(0xF0) == ""
    assert detokenizer.flush() == "\ufffd"


def test_possible_stop_strings_wait(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer, ("abca",))
    assert [detokenizer.push(i) for i in b"xabcb"] == ["x", "", "", "", "abcb"]
    assert [detokenizer.push(i) for i in b"aab"] == ["", "a", ""]
    assert detokenizer.flush() == "ab"
    assert not detokenizer.stopped


def test_stop_across_tokens(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer, ("b a", "zz"))
    pieces = [detokenizer.push(i) for i in (256, 259, 0x7A, 0x7A)]  # "ab", " ab", "z", "z"
    assert pieces == ["a", "", "", ""]
    assert detokenizer.stopped
    assert detokenizer.flush() == ""


def test_the_stop_that_is_complete_first(tokenizer: Tokenizer) -> None:
    for parts in ([257], list(b"abc")):  # "abc" in one token, and in three
        detokenizer = Detokenizer(tokenizer, ("b", "abc"))
        assert "".join(map(detokenizer.push, parts)) == "a"
    detokenizer = Detokenizer(tokenizer, ("bc", "abc"))
    assert detokenizer.push(257) == ""


def test_a_stop_string_that_only_flush_completes(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer, ("a\ufffd",))
    assert [detokenizer.push(0x61), detokenizer.push(0xC3), detokenizer.flush()] == ["", "", ""]
    assert detokenizer.stopped


def test_control_tokens(tokenizer: Tokenizer) -> None:
    assert Detokenizer(tokenizer).push(SPECIAL) == ""
    assert Detokenizer(tokenizer, skip_special=False).push(SPECIAL) == "<x>"


def test_empty_stop_strings_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(RequestError, match="stop string is empty") as caught:
        Detokenizer(tokenizer, ("a", ""))
    assert caught.value.field == "stop"


def test_the_first_space(spaced: Tokenizer) -> None:
    first, second = spaced.encode("a a", add_special=False)
    detokenizer = Detokenizer(spaced)
    assert [detokenizer.push(first), detokenizer.push(second)] == ["a", " a"]
    assert Detokenizer(spaced, continues=True).push(first) == " a"
    after_bos = Detokenizer(spaced)
    assert [after_bos.push(1), after_bos.push(first)] == ["", " a"]


@given(ids=ids, more=ids, other=ids, stop=stops)
def test_a_fork_goes_its_own_way(
    tokenizer: Tokenizer, ids: list[int], more: list[int], other: list[int], stop: tuple[str, ...]
) -> None:
    one, alone, fork_alone = (Detokenizer(tokenizer, stop) for _ in range(3))
    for token in ids:
        assert one.push(token) == alone.push(token) == fork_alone.push(token)
    fork = one.fork()
    assert [fork.push(token) for token in other] == [fork_alone.push(token) for token in other]
    assert [one.push(token) for token in more] == [alone.push(token) for token in more]
    assert (fork.flush(), fork.stopped_by) == (fork_alone.flush(), fork_alone.stopped_by)
    assert (one.flush(), one.stopped_by) == (alone.flush(), alone.stopped_by)
