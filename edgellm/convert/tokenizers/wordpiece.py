"""WordPiece from tokenizer.json ("bert" in GGUF).

Tokens that words begin with get a mark in front, and those inside words lose theirs.
"""

from edgellm.convert.keys import Keys
from edgellm.convert.tokenizers.folder import TokenizerFolder
from edgellm.convert.tokenizers.tokens import Token, Tokens
from edgellm.errors import GGUFError
from edgellm.tokenizer.vocab import SPACE, TokenType


def read(source: TokenizerFolder, rule: str | None) -> Tokens:
    """rule: means nothing here."""
    vocab = source.model.get("vocab")
    if not isinstance(vocab, dict) or not all(type(i) is int and i >= 0 for i in vocab.values()):
        raise GGUFError(f"{source.path}: has no vocabulary of tokens and ids")
    inside = str(source.model.get("continuing_subword_prefix") or "##")
    special = {i for i, one in source.added.items() if one.special}
    tokens = {}
    for text, i in [*vocab.items(), *((one.text, i) for i, one in source.added.items())]:
        if i in special:
            tokens[i] = Token(text, TokenType.CONTROL)
        elif text.startswith(inside):
            tokens[i] = Token(text.removeprefix(inside), TokenType.NORMAL)
        else:
            tokens[i] = Token(SPACE + text, TokenType.NORMAL)
    return Tokens("bert", tokens, {"tokenizer.ggml.pre": "default", **_normalizer(source)})


def _normalizer(source: TokenizerFolder) -> Keys:
    for step in source.steps("normalizer"):
        if step.get("type") == "BertNormalizer":
            lowercase = bool(step.get("lowercase", True))
            accents = step.get("strip_accents")
            return {
                "tokenizer.ggml.normalizer.lowercase": lowercase,
                "tokenizer.ggml.normalizer.strip_accents": (
                    lowercase if accents is None else bool(accents)
                ),
            }
    return {}
