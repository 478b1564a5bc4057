"""SentencePiece BPE: merges by score over whole texts, with bytes for what is no token.

Source: llama.cpp b11434 (`tokenizer.ggml.model` llama). A pair joins when the two together are a
token, of any type; the highest score first, the leftmost among equals.
"""

import numpy as np

from edgellm.gguf_loader import GGUFFile
from edgellm.tokenizer.cut import Cutter
from edgellm.tokenizer.merge import NEVER, merge
from edgellm.tokenizer.model import TextModel
from edgellm.tokenizer.special import Defaults
from edgellm.tokenizer.vocab import (
    SPACE,
    Vocab,
    byte_token,
    flag,
    joined,
    plain_bytes,
    read_scores,
    read_vocab,
)
from edgellm.tokenizer.words import WordEncoder

_UNKNOWN = 0
_DEFAULTS = Defaults(bos=1, eos=2, unk=_UNKNOWN)


def build_spm(file: GGUFFile) -> tuple[Vocab, TextModel]:
    """GGUFError when the scores are missing or damaged."""
    vocab = read_vocab(file)
    scores = read_scores(file, len(vocab.tokens))
    ranks = np.unique(-scores, return_inverse=True)[1].astype(np.int32).data
    find = vocab.index.find
    byte_ids = _byte_ids(file, vocab)

    def rank(text: str) -> int:
        token = find(text)
        return NEVER if token is None else ranks[token]

    def encode_word(word: str) -> list[int]:
        found: list[int] = []
        for symbol in merge(list(word), rank, ""):
            token = find(symbol)
            if token is not None:
                found.append(token)
            else:
                found += (byte_ids[byte] for byte in symbol.encode())
        return found

    words = WordEncoder(Cutter(joined(vocab.tokens)).cut, encode_word)
    space_prefix = flag(file, "add_space_prefix", True)

    def encode(text: str, after_special: bool) -> list[int]:
        if space_prefix and after_special:
            text = " " + text
        return words.encode(text.replace(" ", SPACE))

    return vocab, TextModel(encode, plain_bytes, _DEFAULTS, space_prefix=space_prefix, add_bos=True)


def _byte_ids(file: GGUFFile, vocab: Vocab) -> list[int]:
    """The token of each byte: `<0xNN>`, else the character itself, else the unknown token."""
    unknown = file.integer("tokenizer.ggml.unknown_token_id")
    if unknown is None or not 0 <= unknown < len(vocab.tokens):
        unknown = _UNKNOWN

    def found(text: str, other: int) -> int:
        token = vocab.index.find(text)
        return other if token is None else token

    by_text = [found(chr(byte), unknown) for byte in range(0x80)] + [unknown] * 0x80
    return [found(byte_token(byte), other) for byte, other in enumerate(by_text)]
