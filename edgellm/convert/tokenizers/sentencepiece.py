"""SentencePiece's own file: BPE over characters ("llama" in GGUF), or Unigram ("t5")."""

import numpy as np

from edgellm.convert.keys import Keys
from edgellm.convert.tokenizers.folder import TokenizerFolder
from edgellm.convert.tokenizers.protobuf import BPE, UNIGRAM
from edgellm.convert.tokenizers.tokens import Token, Tokens, with_added
from edgellm.errors import GGUFError
from edgellm.tokenizer.vocab import TokenType

_NAMES = {BPE: "llama", UNIGRAM: "t5"}


def read(source: TokenizerFolder) -> Tokens:
    """The pieces with their scores, and what the folder adds to them."""
    pieces = source.pieces
    assert pieces is not None
    if pieces.model_type not in _NAMES:
        raise GGUFError(
            f"{pieces.path}: is a model of type {pieces.model_type}, expected Unigram or BPE"
        )
    tokens = {i: Token(p.text, TokenType(p.type), p.score) for i, p in enumerate(pieces.pieces)}
    more: Keys = {
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.add_space_prefix": pieces.add_dummy_prefix,
    }
    if pieces.model_type == UNIGRAM:
        more |= unigram_keys(pieces.remove_extra_whitespaces, pieces.charsmap)
    return Tokens(
        _NAMES[pieces.model_type],
        with_added(tokens, source.added),
        more,
        scored=True,
        adds={"bos": pieces.model_type == BPE, "eos": pieces.model_type == UNIGRAM},
    )


def unigram_keys(merges_spaces: bool, charsmap: bytes) -> Keys:
    """How text is normalised before it is cut."""
    keys: Keys = {"tokenizer.ggml.remove_extra_whitespaces": merges_spaces}
    if charsmap:
        keys["tokenizer.ggml.precompiled_charsmap"] = np.frombuffer(charsmap, np.uint8)
    return keys
