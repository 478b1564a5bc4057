"""Files of ranks (tiktoken, tekken): merges follow from ranks, and what is wrong is named."""

import json
import shutil
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from edgellm.convert.tokenizers import vocabulary
from edgellm.convert.tokenizers.ranks import merges_of
from edgellm.errors import EdgeLLMError
from tests.convert import tokenizers

BYTES = {bytes([b]): b for b in range(256)}


def folder_of(tmp_path: Path, name: str = "tiktoken") -> Path:
    return Path(shutil.copytree(tokenizers.FOLDER / name, tmp_path / name))


@given(st.lists(st.binary(min_size=2, max_size=6), unique=True, max_size=30))
def test_merges_make_their_tokens_in_order_of_ranks(tokens: list[bytes]) -> None:
    ranks = BYTES | {token: 256 + i for i, token in enumerate(tokens)}
    made = [left + right for left, right in merges_of(ranks)]
    assert [ranks[token] for token in made] == sorted(ranks[token] for token in made)
    for left, right in merges_of(ranks):
        assert max(ranks[left], ranks[right]) < ranks[left + right]


def test_special_tokens_stand_behind_the_ranks(tmp_path: Path) -> None:
    size = json.loads((tokenizers.FOLDER / "tiktoken" / "expected.json").read_text())["size"]
    keys = vocabulary(folder_of(tmp_path), size)
    tokens = keys["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list) and tokens[size - 208 : size - 205] == [
        *("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    ]
    assert keys["tokenizer.ggml.eos_token_id"] == size - 208
    assert keys["tokenizer.ggml.pre"] == "qwen2"


def test_tokenizer_model_may_hold_ranks(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "qwen.tiktoken").rename(folder / "tokenizer.model")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "ChatGLM4Tokenizer"}')
    assert vocabulary(folder, 400)["tokenizer.ggml.pre"] == "chatglm-bpe"


def test_a_class_that_is_not_known_is_named_with_a_fingerprint(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "OddTokenizer"}')
    with pytest.raises(
        EdgeLLMError, match=r"OddTokenizer, sha256 of its tokens [0-9a-f]{16}.*--pre"
    ):
        vocabulary(folder, 400)
    assert vocabulary(folder, 400, rule="qwen2")["tokenizer.ggml.pre"] == "qwen2"


def line(token: bytes, rank: object) -> str:
    return f"{b64encode(token).decode()} {rank}\n"


DAMAGED = {
    "no rank": line(b"a", 0) + "YQ==\n",
    "twice": line(b"a", 0) + line(b"a", 1),
    "same rank": line(b"a", 0) + line(b"b", 0),
    "too long": line(b"a", 0) + line(b"a" * 2000, 1),
    "no base64": line(b"a", 0) + "abc 1\n",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_ranks_are_named(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path)
    (folder / "qwen.tiktoken").write_text(DAMAGED[name])
    with pytest.raises(EdgeLLMError, match="qwen.tiktoken"):
        vocabulary(folder, 400)


@pytest.mark.parametrize("content", [{}, {"config": []}, {"config": {}, "vocab": []}])
def test_damaged_tekken_is_named(tmp_path: Path, content: object) -> None:
    (tmp_path / "tekken.json").write_text(json.dumps(content))
    with pytest.raises(EdgeLLMError, match="tekken.json"):
        vocabulary(tmp_path, 400)


def test_tekken_of_other_versions_lists_its_special_tokens(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "tekken")
    content = json.loads((folder / "tekken.json").read_text())
    content["special_tokens"] = [{"rank": 1, "token_str": "<s>"}, {"rank": 3, "token_str": "[X]"}]
    (folder / "tekken.json").write_text(json.dumps(content))
    tokens = vocabulary(folder, 400)["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list) and tokens[:4] == ["<SPECIAL_0>", "<s>", "<SPECIAL_2>", "[X]"]
