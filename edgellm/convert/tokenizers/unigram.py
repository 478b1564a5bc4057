"""Unigram from tokenizer.json ("t5" in GGUF): tokens with scores, in the order of their ids."""

from base64 import b64decode

from edgellm.convert.tokenizers.bpe import adds_space
from edgellm.convert.tokenizers.folder import TokenizerFolder
from edgellm.convert.tokenizers.sentencepiece import unigram_keys
from edgellm.convert.tokenizers.tokens import Token, Tokens, byte_or_normal, with_added
from edgellm.errors import GGUFError
from edgellm.tokenizer.vocab import TokenType


def read(source: TokenizerFolder, rule: str | None) -> Tokens:
    """rule: means nothing here."""
    unknown = source.model.get("unk_id")
    fallback = bool(source.model.get("byte_fallback"))
    tokens = {}
    try:
        for i, (text, score) in enumerate(source.model["vocab"]):
            kind = byte_or_normal(text) if fallback else TokenType.NORMAL
            tokens[i] = Token(str(text), TokenType.UNKNOWN if i == unknown else kind, float(score))
        charsmap = b"".join(
            b64decode(step["precompiled_charsmap"], validate=True)
            for step in source.steps("normalizer")
            if step.get("type") == "Precompiled" and step.get("precompiled_charsmap")
        )
    except (TypeError, KeyError, ValueError):
        raise GGUFError(f"{source.path}: has no tokens with scores: it is damaged") from None
    return Tokens(
        "t5",
        with_added(tokens, source.added),
        {
            "tokenizer.ggml.pre": "default",
            "tokenizer.ggml.add_space_prefix": adds_space(source),
            **unigram_keys(_merges_spaces(source), charsmap),
        },
        scored=True,
    )


def _merges_spaces(source: TokenizerFolder) -> bool:
    """By a Replace of several spaces, or words that are cut at white space first."""
    steps = source.steps("normalizer")
    patterns = [step.get("pattern") for step in steps if step.get("type") == "Replace"]
    found = [pattern.get("Regex") for pattern in patterns if isinstance(pattern, dict)]
    kinds = [step.get("type") for step in source.steps("pre_tokenizer")]
    return any(text in (" {2,}", r"\s{2,}", " +", r"\s+") for text in found) or (
        "WhitespaceSplit" in kinds
    )
