"""Folders of before tokenizer.json: its content, made of vocab.json and merges.txt, or vocab.txt.

How text is split follows from the class that tokenizer_config.json names.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgellm.convert.checkpoint import read_json
from edgellm.errors import GGUFError

_GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
_QWEN2 = {
    "type": "Split",
    "pattern": {
        "Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    },
    "behavior": "Isolated",
}
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
_STEPS: Mapping[str, list[dict[str, Any]]] = {
    "GPT2Tokenizer": [_GPT2],
    "CodeGenTokenizer": [_GPT2],
    "RobertaTokenizer": [_GPT2],
    "Qwen2Tokenizer": [_QWEN2, _BYTES],
}
_ROBERTA = {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]}
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def older_content(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """As tokenizer.json would have it; None where the folder has none of these files.

    GGUFError names a class of tokenizers that is not known here.
    """
    if (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        return _byte_pairs(folder, settings)
    if (folder / "vocab.txt").exists():
        return _word_pieces(folder, settings)
    return None


def _byte_pairs(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(settings.get("tokenizer_class", "GPT2Tokenizer")).removesuffix("Fast")
    if kind not in _STEPS:
        raise GGUFError(
            f"{folder}: has no tokenizer.json, and how {kind} splits text is not known here: save "
            "it anew with a current version of transformers"
        )
    merges = [line for line in _lines(folder / "merges.txt") if line and line[:8] != "#version"]
    content: dict[str, Any] = {
        "model": {"type": "BPE", "vocab": read_json(folder / "vocab.json"), "merges": merges},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _STEPS[kind]},
    }
    return {**content, "post_processor": _ROBERTA} if kind == "RobertaTokenizer" else content


def _word_pieces(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    words = _lines(folder / "vocab.txt")
    while words and not words[-1]:
        words.pop()
    vocab = {word: i for i, word in enumerate(words)}
    if len(vocab) != len(words):
        raise GGUFError(f"{folder / 'vocab.txt'}: has a token twice")
    special = [word for word in _SPECIAL if word in vocab]
    return {
        "model": {"type": "WordPiece", "vocab": vocab},
        "normalizer": {
            "type": "BertNormalizer",
            "lowercase": bool(settings.get("do_lower_case", True)),
            "strip_accents": settings.get("strip_accents"),
        },
        "added_tokens": [{"id": vocab[word], "content": word, "special": True} for word in special],
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]"], "sep": ["[SEP]"]},
    }


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise GGUFError(f"{path}: cannot be read as text: {error}") from None
