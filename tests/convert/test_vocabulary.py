"""Tokenizers of folders: the ids that their text becomes in GGUF."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.keys import Keys
from edgellm.convert.tokenizers import vocabulary
from edgellm.convert.write import write_converted
from edgellm.errors import EdgeLLMError
from edgellm.gguf_loader import entry, open_gguf, write_gguf
from edgellm.tokenizer import Tokenizer, load_tokenizer
from tests.convert import tokenizers
from tests.convert.checkpoints import byte_tokenizer, write_checkpoint


def converted(
    folder: Path, tokenizer: dict[str, Any] | None = None, rule: str | None = None, **keys: Any
) -> Path:
    write_checkpoint(folder / "model", "LlamaForCausalLM", tokenizer=tokenizer)
    settings = folder / "model" / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | keys))
    path = folder / "out.gguf"
    write_converted(open_checkpoint(folder / "model"), path, rule=rule, replace=True)
    return path


def loaded(path: Path) -> Tokenizer:
    with open_gguf(path) as file:
        return load_tokenizer(file)


def test_byte_level(tmp_path: Path) -> None:
    path = converted(tmp_path)
    tokenizer = loaded(path)
    assert tokenizer.encode("hello world<|end|>") == [261, 108, 111, 262, *b"orld", 256]
    assert tokenizer.encode("<tool>") == [258]
    assert tokenizer.decode([261, 108, 111, 262]) == "hello w"
    assert tokenizer.bos_id == 257 and not tokenizer.add_bos
    with open_gguf(path) as file:
        assert file.string("tokenizer.ggml.pre") == "qwen2"
        assert file.integer("tokenizer.ggml.eos_token_id") == 256
        assert (file.string("tokenizer.chat_template") or "").startswith("{% for m in")
        types = file.integers("tokenizer.ggml.token_type")
        assert types is not None and types[[0, 256, 258, 259, 271]].tolist() == [1, 3, 4, 5, 5]


@pytest.mark.parametrize("name", tokenizers.NAMES)
def test_ids_are_those_of_the_tokenizers_own_library(tmp_path: Path, name: str) -> None:
    source = tokenizers.FOLDER / name
    expected = json.loads((source / "expected.json").read_text())
    keys = vocabulary(source, expected["size"])
    entries = [entry("general.architecture", "llama")]
    path = tmp_path / "words.gguf"
    write_gguf(path, [*entries, *(entry(k, v) for k, v in keys.items())], [], [])
    tokenizer = loaded(path)
    got = [tokenizer.encode(text) for text in tokenizers.TEXTS]
    assert got == expected["ids"]


def sentencepiece() -> dict[str, Any]:
    """Gemma's kind: characters, bytes for the rest, spaces as a letter of their own."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    pieces += ["\u2581", "h", "e", "l", "o", "he", "ll", "hell", "hello", "\u2581hello"]
    merges = ["h e", "l l", "he ll", "hell o", "\u2581 hello"]
    return {
        "model": {
            "type": "BPE",
            "vocab": {text: i for i, text in enumerate(pieces)},
            "merges": merges,
            "byte_fallback": True,
            "unk_token": "<unk>",
        },
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}},
        "added_tokens": [
            {"id": i, "content": text, "special": True} for i, text in enumerate(pieces[:3])
        ],
    }


def test_sentencepiece(tmp_path: Path) -> None:
    content = sentencepiece()
    path = converted(tmp_path, content, bos_token="<s>", eos_token="</s>", add_bos_token=True)
    vocab = content["model"]["vocab"]
    tokenizer = loaded(path)
    assert tokenizer.encode("hello hello!") == [
        1,
        vocab["hello"],
        vocab["\u2581hello"],
        vocab["<0x21>"],
    ]
    with open_gguf(path) as file:
        assert file.string("tokenizer.ggml.model") == "llama"
        assert file.boolean("tokenizer.ggml.add_space_prefix") is False
        types = file.integers("tokenizer.ggml.token_type")
        assert types is not None and types[[0, 1, 3, 260]].tolist() == [2, 3, 6, 1]
        scores = file.numbers("tokenizer.ggml.scores")
        assert scores is not None and np.array_equal(scores[264:269], [0, -1, -2, -3, -4])
    content["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend"}]}
    with open_gguf(converted(tmp_path, content)) as file:
        assert file.boolean("tokenizer.ggml.add_space_prefix") is True


def test_rules_by_their_steps(tmp_path: Path) -> None:
    content = byte_tokenizer()
    level = {"type": "ByteLevel", "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    for steps, rule in (([level], "gpt-2"), ([digits, level], "smollm")):
        content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
        with open_gguf(converted(tmp_path, content)) as file:
            assert file.string("tokenizer.ggml.pre") == rule
    split = {"type": "Split", "pattern": {"Regex": "odd"}}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, level]}
    with pytest.raises(EdgeLLMError, match="name it with --pre"):
        converted(tmp_path, content)
    with open_gguf(converted(tmp_path, content, "llama-bpe")) as file:
        assert file.string("tokenizer.ggml.pre") == "llama-bpe"


def test_a_beginning_that_the_template_adds(tmp_path: Path) -> None:
    content = byte_tokenizer()
    single = [{"SpecialToken": {"id": "<|start|>"}}, {"Sequence": {"id": "A"}}]
    content["post_processor"] = {"type": "TemplateProcessing", "single": single}
    with open_gguf(converted(tmp_path, content, add_bos_token=None)) as file:
        assert file.boolean("tokenizer.ggml.add_bos_token") is True
        assert file.boolean("tokenizer.ggml.add_eos_token") is False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"type": "WordLevel"}}, "kind 'WordLevel', expected one of BPE, Unigram"),
        ({"model": {"type": "Unigram"}}, "no tokens with scores"),
        ({"model": {"type": "Unigram", "vocab": [["a"]]}}, "no tokens with scores"),
        ({"model": {"type": "WordPiece", "vocab": []}}, "no vocabulary"),
        ({"model": {"type": "BPE"}}, "no vocabulary"),
        ({"model": {"type": "BPE", "vocab": {"a": 1, "b": 1}}}, "the same id"),
        ({"model": {"type": "BPE", "vocab": {"a": -1}}}, "no vocabulary"),
        ({"model": {"type": "BPE", "vocab": {"a": 1}, "merges": ["a"]}}, "no pair"),
        ({"added_tokens": [{"id": 3}]}, "no id and content"),
        ({"added_tokens": 3}, "no id and content"),
    ],
)
def test_damaged_tokenizers(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(EdgeLLMError, match=message):
        converted(tmp_path, byte_tokenizer() | change)


def written(folder: Path, **files: Any) -> Keys:
    write_checkpoint(folder / "model", "LlamaForCausalLM")
    for name, content in files.items():
        path = folder / "model" / name.replace("__", ".")
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return vocabulary(folder / "model", 272)


def test_templates_by_name(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]
    keys = written(tmp_path, tokenizer_config__json={"chat_template": named})
    assert keys["tokenizer.chat_template"] == "D"
    assert keys["tokenizer.chat_templates"] == ["tool_use"]
    assert keys["tokenizer.chat_template.tool_use"] == "T"
    keys = written(tmp_path, chat_template__jinja="J", chat_template__json={"chat_template": "L"})
    assert keys["tokenizer.chat_template"] == "J"


def test_advice_of_generation_config(tmp_path: Path) -> None:
    advice = {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": True}
    ends = {"eos_token_id": [258, 256, 259]}
    keys = written(tmp_path, generation_config__json={**advice, **ends})
    assert keys["general.sampling.temp"] == 0.6 and keys["general.sampling.top_k"] == 20
    assert "general.sampling.penalty_repeat" not in keys
    assert keys["tokenizer.ggml.eos_token_id"] == 256
    assert keys["tokenizer.ggml.eot_token_id"] == 258
    assert keys["tokenizer.ggml.eom_token_id"] == 259
    keys = written(tmp_path, generation_config__json={**advice, "do_sample": False})
    assert "general.sampling.temp" not in keys


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(EdgeLLMError, match=r"no tokenizer\.json and no tokenizer\.model"):
        vocabulary(tmp_path, 4)


def test_added_tokens_in_any_file(tmp_path: Path) -> None:
    decoder = {"265": {"content": "<think>", "special": False}}
    keys = written(
        tmp_path,
        added_tokens__json={"<old>": 264},
        tokenizer_config__json={"added_tokens_decoder": decoder},
    )
    tokens = keys["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list) and tokens[264:266] == ["<old>", "<think>"]


def as_older(source: Path, folder: Path, kind: str) -> None:
    """The files of before tokenizer.json."""
    content = json.loads((source / "tokenizer.json").read_text())
    settings = json.loads((source / "tokenizer_config.json").read_text())
    folder.mkdir()
    special = {str(t["id"]): t for t in content["added_tokens"]}
    settings |= {"tokenizer_class": kind, "added_tokens_decoder": special}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    vocab = content["model"]["vocab"]
    if kind == "BertTokenizer":
        (folder / "vocab.txt").write_text("\n".join(sorted(vocab, key=vocab.__getitem__)) + "\n")
        return
    (folder / "vocab.json").write_text(json.dumps(vocab))
    merges = [" ".join(pair) for pair in content["model"]["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")


@pytest.mark.parametrize(
    ("name", "kind"), [("gpt2", "GPT2Tokenizer"), ("wordpiece", "BertTokenizer")]
)
def test_older_files_say_the_same(tmp_path: Path, name: str, kind: str) -> None:
    source = tokenizers.FOLDER / name
    as_older(source, tmp_path / "older", kind)
    size = json.loads((source / "expected.json").read_text())["size"]
    older, newer = vocabulary(tmp_path / "older", size), vocabulary(source, size)
    assert older.keys() == newer.keys()
    for key, value in newer.items():
        assert np.array_equal(np.asarray(older[key]), np.asarray(value)), key


def test_an_older_class_that_is_not_known(tmp_path: Path) -> None:
    as_older(tokenizers.FOLDER / "gpt2", tmp_path / "older", "OddTokenizer")
    with pytest.raises(EdgeLLMError, match="how OddTokenizer splits text is not known"):
        vocabulary(tmp_path / "older", 330)


RWKV = "1 b'\\x00' 1\n2 'a' 1\n3 'ab' 2\n4 '\\n' 1\n6 '\u4f60' 3\n5 \"'\" 1\n"


def test_rwkvs_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "rwkv_vocab_v1.txt").write_text(RWKV)
    keys = vocabulary(tmp_path, 8)
    assert keys["tokenizer.ggml.model"] == "rwkv"
    entries = [entry("general.architecture", "rwkv7")]
    write_gguf(tmp_path / "w.gguf", [*entries, *(entry(k, v) for k, v in keys.items())], [], [])
    tokenizer = loaded(tmp_path / "w.gguf")
    assert tokenizer.encode("aba\n\u4f60'") == [3, 2, 4, 6, 5]
    assert tokenizer.decode([3, 4, 6, 5]) == "ab\n\u4f60'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 'a' 2\n", "line 1 is no token"),
        ("1 'a' 1\n1 'b' 1\n", "line 2 has token 1, which is there"),
        ("1 __import__('os') 1\n", "line 1 is no token"),
        ("\n", "has no tokens"),
    ],
)
def test_rwkvs_vocabulary_damaged(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rwkv_vocab_v1.txt").write_text(text)
    with pytest.raises(EdgeLLMError, match=message):
        vocabulary(tmp_path, 8)
