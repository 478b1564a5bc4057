"""Tokens on their way into a file. Knows no kind of tokenizer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from edgellm.convert.keys import Keys
from edgellm.convert.tokenizers.folder import Added
from edgellm.tokenizer.vocab import SPACE, TokenType

NO_SCORE = -1e6  # of tokens that no merge makes


@dataclass(frozen=True)
class Token:
    text: str
    type: TokenType
    score: float = 0.0


@dataclass(frozen=True)
class Tokens:
    """model: GGUF's name of the algorithm. by_id: without gaps or with. more: its further keys.
    scored: whether scores are written. adds: of bos, eos and sep, which the kind of tokenizer puts
    around a text unless the folder says otherwise."""

    model: str
    by_id: Mapping[int, Token]
    more: Keys = field(default_factory=dict)
    scored: bool = False
    adds: Mapping[str, bool] = field(default_factory=dict)

    def keys(self, size: int) -> Keys:
        """For a model of `size` tokens; those that it lacks are unused."""
        all_tokens = [
            self.by_id.get(i, Token(f"[PAD{i}]", TokenType.UNUSED, NO_SCORE)) for i in range(size)
        ]
        keys: Keys = {
            "tokenizer.ggml.model": self.model,
            **self.more,
            "tokenizer.ggml.tokens": [token.text for token in all_tokens],
            "tokenizer.ggml.token_type": np.array([token.type for token in all_tokens], np.int32),
        }
        if self.scored:
            scores = np.array([token.score for token in all_tokens], np.float32)
            keys["tokenizer.ggml.scores"] = scores
        return keys

    def ids(self, size: int) -> dict[str, int]:
        return {token.text: i for i, token in self.by_id.items() if i < size}


def with_added(tokens: Mapping[int, Token], added: Mapping[int, Added]) -> dict[int, Token]:
    """With those that stand beside the model's, which are looked for in the text itself, where a
    space is a space."""
    found = dict(tokens)
    for i, one in added.items():
        known = tokens.get(i)
        if known is not None and known.type == TokenType.UNKNOWN and known.text == one.text:
            continue
        if one.special:
            found[i] = Token(one.text, TokenType.CONTROL, known.score if known else NO_SCORE)
        else:
            text = one.text.replace(SPACE, " ")
            found[i] = Token(text, TokenType.USER_DEFINED, known.score if known else NO_SCORE)
    return found


def byte_or_normal(text: str) -> TokenType:
    """<0xNN> stands for a byte where bytes are a fallback."""
    return TokenType.BYTE if len(text) == 6 and text.startswith("<0x") else TokenType.NORMAL
