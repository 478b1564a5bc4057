"""The vocabulary of a model file: token texts, types and the way back. Knows no algorithm.

The loader has checked that scores and types are numbers and no fewer than the tokens.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile, StringArray
from edgellm.tokenizer.string_index import StringIndex

TOKENS = "tokenizer.ggml.tokens"
TYPES = "tokenizer.ggml.token_type"
SCORES = "tokenizer.ggml.scores"

SPACE = "\u2581"  # "▁", what SentencePiece writes for a space
MARK = "\U0010ffff"  # four bytes, in no real text

_BATCH = 1 << 13  # strings of which one text is made


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`, as llama.cpp numbers them."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocab:
    """tokens: text by id. index: id by text. types: one TokenType a byte, by id."""

    tokens: StringArray
    index: StringIndex
    types: bytes


def read_vocab(file: GGUFFile) -> Vocab:
    """The vocabulary of a file. GGUFError when it is missing, damaged or holds a token twice."""
    array = file.strings(TOKENS)
    if array is None or not len(array):
        raise GGUFError(f"{file.path}: no tokens at key {TOKENS}, expected the vocabulary")
    check_utf8(file, TOKENS, array)
    if not array.lengths.all():  # llama.cpp's name for a token that has no text
        array = StringArray.of((text or f"[EMPTY_{i}]").encode() for i, text in enumerate(array))
    else:
        array = array.copy()
    index = StringIndex(array)
    if repeat := index.first_repeat():
        raise GGUFError(
            f"{file.path}: tokens {repeat[0]} and {repeat[1]} are both "
            f"{_shown(array[repeat[0]])}, expected a vocabulary without repeats"
        )
    return Vocab(array, index, _read_types(file, array))


def read_scores(file: GGUFFile, count: int) -> npt.NDArray[np.float32]:
    """float32 (count,): the score of each token, higher merges first."""
    scores = file.numbers(SCORES)
    if scores is None:
        raise GGUFError(f"{file.path}: no key {SCORES}, expected a score for each token")
    values = scores[:count].astype(np.float32)
    if np.isnan(values).any():
        raise GGUFError(f"{file.path}: {SCORES} holds a score that is not a number")
    return values


def flag(file: GGUFFile, name: str, default: bool) -> bool:
    """Yes or no of the tokenizer's key of this name, or the default."""
    value = file.boolean(f"tokenizer.ggml.{name}")
    return default if value is None else value


def joined(array: StringArray) -> Iterator[str]:
    """All strings of an array, some thousands in one text, with MARK before and between them.

    UnicodeDecodeError when one of them is not UTF-8.
    """
    offsets = array.offsets
    mark = np.frombuffer(2 * MARK.encode(), np.uint8)  # in place of a string's length
    for first in range(0, len(offsets), _BATCH):
        lengths_at = offsets[first : first + _BATCH] - 8
        end = offsets[first + _BATCH] - 8 if first + _BATCH < len(offsets) else None
        data = np.array(array.buffer[lengths_at[0] : end])
        data[(lengths_at - lengths_at[0])[:, None] + np.arange(8)] = mark
        yield data.tobytes().decode()


def check_utf8(file: GGUFFile, key: str, array: StringArray) -> None:
    """GGUFError when a string of an array is not UTF-8."""
    try:
        for _ in joined(array):
            pass
    except UnicodeDecodeError:
        i, raw = next((i, raw) for i in range(len(array)) if not _is_utf8(raw := array.raw(i)))
        raise GGUFError(
            f"{file.path}: string {i} of {key} is {raw[:40]!r}, expected valid UTF-8"
        ) from None


def byte_value(text: str) -> int | None:
    """The byte that a token such as `<0x0A>` stands for; None when it is not of that form."""
    found = re.fullmatch("<0x([0-9A-Fa-f]{2})>", text)
    return int(found[1], 16) if found else None


def byte_token(byte: int) -> str:
    """The text of the token that stands for a byte, such as `<0x0A>`."""
    return f"<0x{byte:02X}>"


def plain_bytes(token: str) -> bytes:
    """What a token adds to a text where SPACE stands for a space."""
    return token.replace(SPACE, " ").encode()


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read_types(file: GGUFFile, tokens: StringArray) -> bytes:
    types = file.integers(TYPES)
    if types is None:
        return bytes([TokenType.NORMAL]) * len(tokens)
    types = types[: len(tokens)]
    known = (types >= 0) & (types <= max(TokenType))
    values = np.where(known, types, TokenType.UNDEFINED).astype(np.uint8)
    for i in np.flatnonzero(values == TokenType.BYTE).tolist():
        if byte_value(tokens[i]) is None:
            raise GGUFError(
                f"{file.path}: token {i} is {_shown(tokens[i])} and typed as a byte, "
                "expected <0x00> to <0xFF>"
            )
    return values.tobytes()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
