"""The vocabulary of a model file: token texts, types and the way back. Knows no algorithm.

The loader has checked that scores and types are numbers and no fewer than the tokens.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile, StringArray

TOKENS = "tokenizer.ggml.tokens"
TYPES = "tokenizer.ggml.token_type"
SCORES = "tokenizer.ggml.scores"

SPACE = "\u2581"  # "▁", what SentencePiece writes for a space


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
    """tokens: text by id. ids: id by text. types: one TokenType a byte, by id."""

    tokens: list[str]
    ids: dict[str, int]
    types: bytes


def read_vocab(file: GGUFFile) -> Vocab:
    """The vocabulary of a file. GGUFError when it is missing, damaged or holds a token twice."""
    array = file.strings(TOKENS)
    if array is None or not len(array):
        raise GGUFError(f"{file.path}: no tokens at key {TOKENS}, expected the vocabulary")
    tokens = read_strings(file, TOKENS, array)
    if "" in tokens:  # llama.cpp's name for a token that has no text
        tokens = [text or f"[EMPTY_{i}]" for i, text in enumerate(tokens)]
    ids = dict(zip(tokens, range(len(tokens)), strict=True))
    if len(ids) != len(tokens):
        first = next(i for i, text in enumerate(tokens) if ids[text] != i)
        raise GGUFError(
            f"{file.path}: tokens {first} and {ids[tokens[first]]} are both "
            f"{_shown(tokens[first])}, expected a vocabulary without repeats"
        )
    return Vocab(tokens, ids, _read_types(file, tokens))


def read_scores(file: GGUFFile, count: int) -> npt.NDArray[np.float32]:
    """float32 (count,): the score of each token, higher merges first."""
    scores = file.numbers(SCORES)
    if scores is None:
        raise GGUFError(f"{file.path}: no key {SCORES}, expected a score for each token")
    values = scores[:count].astype(np.float32)
    if np.isnan(values).any():
        raise GGUFError(f"{file.path}: {SCORES} holds a score that is not a number")
    return values


def read_strings(file: GGUFFile, key: str, array: StringArray) -> list[str]:
    """All strings of an array, in one pass over its bytes.

    The 8 bytes of length before each string become a mark that no text holds, and one split of
    the whole does the rest.
    """
    mark = "\U0010ffff"  # four bytes, so two of them take the place of a length
    data = np.array(array.buffer)
    data[(array.offsets - 8)[:, None] + np.arange(8)] = np.frombuffer(2 * mark.encode(), np.uint8)
    try:
        text = data.tobytes().decode()
    except UnicodeDecodeError:
        return _one_by_one(file, key, array)
    if text.count(mark) != 2 * len(array):
        return _one_by_one(file, key, array)
    return text.split(2 * mark)[1:]


def byte_value(text: str) -> int | None:
    """The byte that a token such as `<0x0A>` stands for; None when it is not of that form."""
    found = re.fullmatch("<0x([0-9A-Fa-f]{2})>", text)
    return int(found[1], 16) if found else None


def byte_token(byte: int) -> str:
    """The text of the token that stands for a byte, such as `<0x0A>`."""
    return f"<0x{byte:02X}>"


def _one_by_one(file: GGUFFile, key: str, array: StringArray) -> list[str]:
    strings = []
    for i in range(len(array)):
        try:
            strings.append(array.raw(i).decode())
        except UnicodeDecodeError:
            raise GGUFError(
                f"{file.path}: string {i} of {key} is {array.raw(i)[:40]!r}, expected valid UTF-8"
            ) from None
    return strings


def _read_types(file: GGUFFile, tokens: list[str]) -> bytes:
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
