"""Unigram vocabularies: the best cut, unknown runs, spaces, and compiled normalisation."""

import itertools
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.errors import GGUFError
from edgellm.tokenizer import Tokenizer, load_tokenizer
from edgellm.tokenizer.charsmap import Charsmap
from tests.tokenizer.vocabularies import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Keys,
    metadata,
    open_with,
)
from tests.waiting import PATIENCE

HEAD = [("<pad>", CONTROL), ("</s>", CONTROL), ("<unk>", UNKNOWN)]
SCORES = {
    "\u2581": -2.0, "a": -3.0, "b": -3.5, "ab": -4.0, "\u2581a": -3.0, "\u2581ab": -7.0,
    "c": -4.0, "abc": -9.0, "bc": -6.0, "aa": -5.0, "d": -5.0, "aab": -6.25,
}  # fmt: skip


def ugm(**more: object) -> Keys:
    tokens = [*(text for text, _ in HEAD), *SCORES, "[X]"]
    kinds = [kind for _, kind in HEAD] + [NORMAL] * len(SCORES) + [USER_DEFINED]
    scores = [0.0] * len(HEAD) + list(SCORES.values()) + [-50.0]
    return metadata("t5", tokens, kinds, scores=scores, **more)


def ids(*pieces: str) -> list[int]:
    tokens = [*(text for text, _ in HEAD), *SCORES, "[X]"]
    return [tokens.index(piece) for piece in pieces]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(open_with(tmp_path_factory.mktemp("ugm"), ugm()))


def best_sum(text: str) -> float:
    """By trying every way to cut."""
    worst = min(SCORES.values()) - 10
    best = -np.inf
    for cuts in itertools.product((False, True), repeat=max(0, len(text) - 1)):
        pieces, start = [], 0
        for at in [*(i + 1 for i, cut in enumerate(cuts) if cut), len(text)]:
            pieces.append(text[start:at])
            start = at
        if all(piece in SCORES or len(piece) == 1 for piece in pieces):
            best = max(best, sum(SCORES.get(piece, worst) for piece in pieces))
    return float(best)


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="abcd ", min_size=1, max_size=9))
def test_the_sum_of_scores_is_the_best_there_is(tokenizer: Tokenizer, text: str) -> None:
    found = tokenizer.encode(text, add_special=False)
    tokens = [*(text for text, _ in HEAD), *SCORES]
    pieces = [tokens[i] for i in found]
    spelled = (" " + text).replace(" ", "\u2581")
    assert "".join(pieces) == spelled
    assert sum(SCORES[piece] for piece in pieces) == pytest.approx(best_sum(spelled))


def test_known_cuts(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("ab") == ids("\u2581", "ab", "</s>")
    assert tokenizer.encode("a c", add_special=False) == ids("\u2581a", "\u2581", "c")
    assert tokenizer.encode("", add_special=False) == []
    assert tokenizer.decode(tokenizer.encode("ab c", add_special=False)) == "ab c"


def test_a_run_of_what_is_unknown_is_one_token(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("xyz", add_special=False) == ids("\u2581", "<unk>")
    assert tokenizer.encode("axyb☃", False) == ids("\u2581a", "<unk>", "b", "<unk>")


def test_user_defined_tokens_are_found_first(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a[X]", add_special=False) == ids("\u2581a", "[X]")


def test_spaces(tmp_path: Path) -> None:
    merged = load_tokenizer(open_with(tmp_path, ugm(remove_extra_whitespaces=True)))
    assert merged.encode("  a   a  ", False) == ids("\u2581a", "\u2581a")
    bare = load_tokenizer(open_with(tmp_path, ugm(add_space_prefix=False)))
    assert bare.encode("c", False) == ids("c")


def test_a_pair_as_xlm_roberta_has_it(tmp_path: Path) -> None:
    more = {"bos_token_id": 0, "seperator_token_id": 1, "add_bos_token": True}
    keys = ugm(**more, add_sep_token=True)
    tokenizer = load_tokenizer(open_with(tmp_path, keys))
    text, end = ids("\u2581a"), ids("</s>")
    pair = [0, *text, *end, *end, *text, *end]
    assert tokenizer.encode_pair("a", "a") == (pair, None)


def charsmap(rules: dict[str, str]) -> bytes:
    """A map of these rules: a double array laid out by trying one place after another."""
    texts, places = b"", {}
    for key, text in rules.items():
        places[key.encode()] = len(texts)
        texts += text.encode() + b"\0"
    units = [0] * 4096
    used, bases = {0}, set[int]()  # each node's children have a place of their own

    def lay(node: int, prefix: bytes) -> None:
        children = {key[len(prefix)] for key in places if key[: len(prefix)] == prefix != key}
        labels = sorted({*children, *([0] if prefix in places else [])})
        free = (
            b for b in range(1, 2048) if b not in bases and all((b ^ c) not in used for c in labels)
        )
        base = next(free)
        bases.add(base)
        used.update(base ^ label for label in labels)
        units[node] |= (node ^ base if node else base) << 10
        for label in labels:
            if label:
                units[base ^ label] |= label
                lay(base ^ label, prefix + bytes([label]))
            else:
                units[node] |= 1 << 8
                units[base] = places[prefix] | 1 << 31

    lay(0, b"")
    trie = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(trie)) + trie + texts


RULES = {"ａ": "a", "①": "1", "ﬁ": "fi", "e\u0301": "é", "\t": " ", "ab": "x", "abcd": "y", "z": ""}


def test_the_longest_rule_wins() -> None:
    normalize = Charsmap(charsmap(RULES)).normalize
    assert normalize("ａ①ﬁ e\u0301\te") == "a1fi é e"
    assert normalize("abcd abc ab a") == "y xc x a"
    assert normalize("z☃z") == "☃"


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="abcdeｂz☃\u0301 ", max_size=12))
def test_what_no_rule_matches_stays(text: str) -> None:
    want, rest = "", text
    while rest:
        key = max((k for k in RULES if rest.startswith(k)), key=len, default="")
        want += RULES[key] if key else rest[0]
        rest = rest[max(1, len(key)) :]
    assert Charsmap(charsmap(RULES)).normalize(text) == want


def test_a_file_s_map_is_used(tmp_path: Path) -> None:
    stored = np.frombuffer(charsmap({"ａ": "a"}), np.int8)
    tokenizer = load_tokenizer(open_with(tmp_path, ugm(precompiled_charsmap=stored)))
    assert tokenizer.encode("ａ", False) == ids("\u2581a")


@pytest.mark.parametrize("data", [b"\x08", b"\xff\xff\xff\x7f" + b"\0" * 8, b"\4\0\0\0\0\0\0\0x"])
def test_a_damaged_map_is_refused(data: bytes) -> None:
    with pytest.raises(GGUFError, match="charsmap"):
        Charsmap(data)


@settings(max_examples=60, deadline=None)
@given(junk=st.binary(min_size=4, max_size=64), text=st.text(max_size=8))
def test_junk_never_does_more_than_refuse(junk: bytes, text: str) -> None:
    trie = junk[: len(junk) // 4 * 4]
    data = struct.pack("<I", len(trie)) + trie + b"ab\0"
    try:
        Charsmap(data).normalize(text)
    except GGUFError as error:
        assert "damaged" in str(error)


def test_a_long_text_takes_linear_time(tokenizer: Tokenizer) -> None:
    began = time.monotonic()
    tokenizer.encode("a" * 100_000)
    tokenizer.encode("ab☃ " * 30_000)
    assert time.monotonic() - began < PATIENCE
