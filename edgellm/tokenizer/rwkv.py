"""RWKV's tokenizer: the longest token that a text's next bytes begin with, over and over.

Source: llama.cpp b11434 (`tokenizer.ggml.model` rwkv). Tokens are bytes, written with escapes.
"""

import re

from edgellm.errors import GGUFError, RequestError
from edgellm.gguf_loader import GGUFFile
from edgellm.tokenizer.model import TextModel
from edgellm.tokenizer.special import Defaults
from edgellm.tokenizer.vocab import TokenType, Vocab, read_vocab

_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_NAMED = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}
_LONGEST = 1 << 10  # bytes of a token


def build_rwkv(file: GGUFFile) -> tuple[Vocab, TextModel]:
    """GGUFError when the vocabulary is missing or damaged."""
    vocab = read_vocab(file)
    prefixes = _prefixes(file, vocab)
    unknown = file.integer("tokenizer.ggml.unknown_token_id")

    def encode(text: str, after_special: bool) -> list[int]:
        data, ids, start = text.encode(), list[int](), 0
        while start < len(data):
            found, end, length = unknown, start + 1, 1
            while (prefix := data[start : start + length]) in prefixes and len(prefix) == length:
                token = prefixes[prefix]
                if token is not None:
                    found, end = token, start + length
                length += 1
            if found is None:
                raise RequestError(
                    f"byte {data[start]:#04x} of the text is in no token of the model", "prompt"
                )
            ids.append(found)
            start = end
        return ids

    return vocab, TextModel(encode, unescape, Defaults())


def unescape(token: str) -> bytes:
    r"""The bytes of a token: \t, \n, \r and \xHH are one, and so is any other character after \."""

    def replace(found: re.Match[bytes]) -> bytes:
        if found[1] is not None:
            return bytes([int(found[1], 16)])
        return _NAMED.get(found[2], found[2])

    return _ESCAPE.sub(replace, token.encode())


def _prefixes(file: GGUFFile, vocab: Vocab) -> dict[bytes, int | None]:
    """What tokens begin with, and the token where one ends there."""
    prefixes: dict[bytes, int | None] = {}
    for token_id, (text, kind) in enumerate(zip(vocab.tokens, vocab.types, strict=True)):
        if kind != TokenType.NORMAL:
            continue
        token = unescape(text)
        if len(token) > _LONGEST:
            raise GGUFError(
                f"{file.path}: token {token_id} has {len(token)} bytes, expected {_LONGEST} at most"
            )
        for length in range(1, len(token)):
            prefixes.setdefault(token[:length], None)
        prefixes[token] = token_id
    return prefixes
