"""Damaged vocabularies: each is refused with a message that says what is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import StringArray, open_gguf
from edgellm.tokenizer import load_tokenizer, vocab
from edgellm.tokenizer.vocab import MARK, byte_value, joined
from tests.gguf_writer import write_gguf
from tests.tokenizer.vocabularies import (
    BYTE,
    NORMAL,
    altered,
    bpe,
    gemma4,
    metadata,
    open_with,
    spm,
)

DAMAGED: list[tuple[dict[str, Any], str]] = [
    (altered(bpe(), model="martian"), "'martian'.*not known.*gemma4, gpt2, llama"),
    (altered(bpe(), model=None), "tokenizer.ggml.model is missing"),
    (altered(bpe(), tokens=None), "no tokens"),
    (altered(bpe(), tokens=[]), "no tokens"),
    (bpe(pre="martian"), "'martian', which is not known; known are .*qwen2"),
    (altered(bpe(), merges=None), "no key tokenizer.ggml.merges"),
    (altered(bpe(), merges=["a b"]), "merge 0 is 'a b', and 'ab' is not in the vocabulary"),
    (altered(bpe(["a b"]), merges=["a b", "ab zz"]), "merge 1 is 'ab zz', and 'zz' is not"),
    (
        altered(bpe(["a b"]), merges=["a b", "ab"]),
        "merge 1 is 'ab', expected two tokens with a space",
    ),
    (
        altered(bpe(["a b"]), merges=["a b", "ab "]),
        "merge 1 is 'ab ', expected two tokens with a space",
    ),
    (altered(bpe(["a b"]), merges=["a b", "a b c"]), "merge 1 is 'a b c', and 'b c' is not"),
    (bpe(add_bos_token="yes"), "add_bos_token.*expected a bool"),
    (bpe(bos_token_id="one"), "bos_token_id.*expected an integer"),
    (altered(gemma4(["a b"], "ab"), bos_token_id=None), "adds a bos token"),
    (metadata("gpt2", ["a", "b", "a"], [1] * 3, pre="gpt-2", merges=[]), "0 and 2 are both 'a'"),
    (metadata("llama", [b"a", b"\xff"], [1] * 2, scores=[0.0] * 2), r"string 1 of .*b'\\xff'"),
    (metadata("llama", ["a", "<0xZZ>"], [NORMAL, BYTE], scores=[0.0] * 2), "token 1 is '<0xZZ>'"),
    (altered(spm({"a": 1}), scores=None), "no key tokenizer.ggml.scores"),
    (spm({"a": float("nan")}), "not a number"),
]


@pytest.mark.parametrize(("keys", "message"), DAMAGED, ids=[message for _, message in DAMAGED])
def test_damage_is_named(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(GGUFError, match=message):
        load_tokenizer(open_with(tmp_path, keys))


@pytest.mark.parametrize("value", [1, -1, "x", 1.5, True, ["a"], [1], [1.5], [[1]], []], ids=repr)
@pytest.mark.parametrize(
    "key",
    [
        *(f"tokenizer.ggml.{name}" for name in ("model", "pre", "tokens", "token_type", "merges")),
        *(f"tokenizer.ggml.{name}" for name in ("scores", "bos_token_id", "fim_pre_token_id")),
        *(f"tokenizer.ggml.{name}" for name in ("add_bos_token", "add_space_prefix")),
        "general.architecture",
        "general.name",
    ],
)
def test_values_of_the_wrong_kind(tmp_path: Path, key: str, value: object) -> None:
    """A wrong value is refused with its key named, or does not matter."""
    for keys in (bpe(["a b"]), spm({"a": 1}), gemma4(["a b"], "ab")):
        try:
            load_tokenizer(open_with(tmp_path, {**keys, key: value})).encode("ab")
        except GGUFError as error:
            assert key in str(error) or key.endswith(("tokens", "merges"))  # or by what they lack


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_strings_in_one_pass(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark that stands between strings may itself be in them."""
    monkeypatch.setattr(vocab, "_BATCH", batch)
    strings = ["", "a", MARK, "é" + MARK, MARK + "x", "\0" * 8, "日本", ""]
    text = "".join(joined(StringArray.of(one.encode() for one in strings)))
    assert text == "".join(2 * MARK + one for one in strings)


def test_empty_tokens_get_names(tmp_path: Path) -> None:
    keys = metadata("llama", ["<unk>", "", "a"], [2, 1, 1], scores=[0.0] * 3, bos_token_id=0)
    tokenizer = load_tokenizer(open_with(tmp_path, keys))
    assert tokenizer.decode([1]) == "[EMPTY_1]"


def test_odd_types_add_nothing(tmp_path: Path) -> None:
    keys = metadata(
        "llama",
        ["<unk>", "a", "b", "c"],
        [2, 7, -1, 5],
        scores=np.zeros(4, np.float32),
        add_bos_token=False,
        add_space_prefix=False,
    )
    tokenizer = load_tokenizer(open_with(tmp_path, keys))
    assert tokenizer.encode("abc") == [1, 2, 3]
    assert tokenizer.decode([1, 2, 3]) == ""


def test_byte_values() -> None:
    assert [byte_value(text) for text in ("<0x00>", "<0xfF>", "<0x+1>", "<0x1>", "x<0x00>")] == [
        0,
        255,
        None,
        None,
        None,
    ]


def test_other_byte_order(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "big.gguf", bpe(["a b"]), byte_order="big")
    assert load_tokenizer(open_gguf(path)).encode("ab") == [256]
