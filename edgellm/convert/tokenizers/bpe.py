"""Byte pair encoding from tokenizer.json: over bytes ("gpt2" in GGUF), or SentencePiece's over
characters with bytes for the rest ("llama"), whose scores are the ranks of the merges."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgellm.convert.tokenizers.folder import TokenizerFolder
from edgellm.convert.tokenizers.pre import rule_of
from edgellm.convert.tokenizers.tokens import (
    NO_SCORE,
    Token,
    Tokens,
    byte_or_normal,
    with_added,
)
from edgellm.errors import GGUFError, RequestError
from edgellm.tokenizer.vocab import TokenType

# What changes bytes before they are merged, and has no place in GGUF.
_LOSSY = ("Lowercase", "StripAccents", "BertNormalizer", "Precompiled", "NFKD")


def read(source: TokenizerFolder, rule: str | None) -> Tokens:
    """rule: the name of the pre-tokenizer's, where it is not to be told from the steps."""
    by_id = _by_id(source.path, source.model.get("vocab"))
    merges = _merges(source.path, source.model.get("merges"))
    if is_over_bytes(source):
        _refuse_lossy(source)
        tokens = {i: Token(text, _type(source, text)) for i, text in by_id.items()}
        return Tokens(
            "gpt2",
            with_added(tokens, source.added),
            {
                "tokenizer.ggml.pre": rule or rule_of(source),
                "tokenizer.ggml.merges": [f"{left} {right}" for left, right in merges],
            },
            adds={"bos": False, "eos": False},
        )
    return Tokens(
        "llama",
        _over_characters(source, by_id, _scores(merges)),
        {
            "tokenizer.ggml.pre": "default",
            "tokenizer.ggml.add_space_prefix": adds_space(source),
        },
        scored=True,
    )


def over_characters(source: TokenizerFolder) -> Tokens:
    """Merges of characters by their ranks ("gemma4")."""
    by_id = _by_id(source.path, source.model.get("vocab"))
    merges = _merges(source.path, source.model.get("merges"))
    return Tokens(
        "gemma4",
        _over_characters(source, by_id, {}),
        {
            "tokenizer.ggml.pre": "gemma4",
            "tokenizer.ggml.merges": [f"{left} {right}" for left, right in merges],
            "tokenizer.ggml.add_space_prefix": False,
        },
        adds={"bos": True},
    )


def _over_characters(
    source: TokenizerFolder, by_id: Mapping[int, str], scores: Mapping[str, float]
) -> dict[int, Token]:
    fallback = bool(source.model.get("byte_fallback"))
    tokens = {}
    for i, text in by_id.items():
        kind = byte_or_normal(text) if fallback else TokenType.NORMAL
        kind = TokenType.UNKNOWN if text == source.model.get("unk_token") else kind
        tokens[i] = Token(text, kind, scores.get(text, NO_SCORE))
    return with_added(tokens, source.added)


def is_over_bytes(source: TokenizerFolder) -> bool:
    return any(step.get("type") == "ByteLevel" for step in source.steps("pre_tokenizer"))


def adds_space(source: TokenizerFolder) -> bool:
    """Whether a space goes before a text: by a Prepend, or by a Metaspace that is told so."""
    steps = [*source.steps("normalizer"), *source.steps("pre_tokenizer")]
    return any(
        step.get("type") == "Prepend"
        or (
            step.get("type") == "Metaspace"
            and step.get("prepend_scheme", "always" if step.get("add_prefix_space") else "never")
            != "never"
        )
        for step in steps
    )


def _type(source: TokenizerFolder, text: str) -> TokenType:
    return TokenType.UNKNOWN if text == source.model.get("unk_token") else TokenType.NORMAL


def _refuse_lossy(source: TokenizerFolder) -> None:
    for step in source.steps("normalizer"):
        if step.get("type") in _LOSSY:
            raise RequestError(
                f"{source.path}: the normalizer {step['type']} has no place in GGUF for byte pairs",
                "folder",
            )


def _by_id(path: Path, vocab: object) -> dict[int, str]:
    if not isinstance(vocab, dict) or not all(type(i) is int and i >= 0 for i in vocab.values()):
        raise GGUFError(f"{path}: has no vocabulary of tokens and ids")
    by_id = {i: text for text, i in vocab.items()}
    if len(by_id) != len(vocab):
        raise GGUFError(f"{path}: two tokens have the same id")
    return by_id


def _merges(path: Path, merges: object) -> list[tuple[str, str]]:
    """Pairs in order of rank; written as one text or as two."""
    found = []
    for merge in merges if isinstance(merges, list) else []:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2:
            raise GGUFError(f"{path}: the merge {str(merge)[:60]!r} is no pair of tokens")
        if any(not isinstance(part, str) or " " in part for part in parts):
            raise GGUFError(f"{path}: the merge {str(merge)[:60]!r} has a space in it")
        found.append((parts[0], parts[1]))
    return found


def _scores(merges: Sequence[tuple[str, str]]) -> Mapping[str, float]:
    """Minus the rank of the first merge that makes a token: what is merged early scores high."""
    scores: dict[str, float] = {}
    for rank, (left, right) in enumerate(merges):
        scores.setdefault(left + right, -float(rank))
    return scores
