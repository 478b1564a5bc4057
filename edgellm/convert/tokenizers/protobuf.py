"""Reads a SentencePiece model's file: a protobuf message, of which a few fields count.

    ModelProto      1 pieces  2 trainer_spec  3 normalizer_spec
    SentencePiece   1 piece  2 score (float)  3 type
    TrainerSpec     3 model_type  40 unk_id  41 bos_id  42 eos_id  43 pad_id
    NormalizerSpec  2 precompiled_charsmap  3 add_dummy_prefix  4 remove_extra_whitespaces

Source: sentencepiece_model.proto of github.com/google/sentencepiece. Every length is held against
what remains.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgellm.errors import GGUFError

UNIGRAM, BPE = 1, 2
_MOST = 1 << 28  # bytes of a file
_LONGEST_VARINT = 10


@dataclass(frozen=True)
class Piece:
    """type: as GGUF numbers them too."""

    text: str
    score: float
    type: int


@dataclass(frozen=True, eq=False)
class Pieces:
    """model_type: UNIGRAM, BPE or another. ids: of unk, bos, eos and pad, where there are any."""

    path: Path
    pieces: tuple[Piece, ...]
    model_type: int
    ids: dict[str, int]
    charsmap: bytes
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool


class _Damaged(ValueError):
    """The bytes are no message."""


def read_pieces(path: Path) -> Pieces:
    """GGUFError when the file is damaged or something else."""
    try:
        if path.stat().st_size > _MOST:
            raise GGUFError(f"{path}: is larger than {_MOST >> 20} MiB")
        return _model(path, path.read_bytes())
    except OSError as error:
        raise GGUFError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (_Damaged, struct.error, UnicodeDecodeError) as error:
        raise GGUFError(f"{path}: is no SentencePiece model, or damaged: {error}") from None


def _model(path: Path, data: bytes) -> Pieces:
    pieces: list[Piece] = []
    trainer = {3: UNIGRAM, 40: 0, 41: 1, 42: 2, 43: -1}
    charsmap, flags = b"", {3: 1, 4: 1}
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            pieces.append(_piece(value))
        elif number == 2 and isinstance(value, bytes):
            trainer |= {n: v for n, v in _fields(value) if isinstance(v, int) and n in trainer}
        elif number == 3 and isinstance(value, bytes):
            for inner, found in _fields(value):
                if inner == 2 and isinstance(found, bytes):
                    charsmap = found
                elif inner in flags and isinstance(found, int):
                    flags[inner] = found
    if not pieces:
        raise _Damaged("it has no pieces")
    names = {"unk": 40, "bos": 41, "eos": 42, "pad": 43}
    ids = {name: _signed(trainer[n]) for name, n in names.items()}
    return Pieces(
        path,
        tuple(pieces),
        trainer[3],
        {name: i for name, i in ids.items() if 0 <= i < len(pieces)},
        charsmap,
        bool(flags[3]),
        bool(flags[4]),
    )


def _piece(data: bytes) -> Piece:
    text, score, kind = "", 0.0, 1
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            text = value.decode()
        elif number == 2 and isinstance(value, float):
            score = value
        elif number == 3 and isinstance(value, int):
            kind = value
    if not 1 <= kind <= 6 or score != score:
        raise _Damaged(f"the piece {text[:40]!r} has the type {kind} and the score {score}")
    return Piece(text, score, kind)


def _signed(value: int) -> int:
    """Negative numbers are written with 64 bits."""
    return value - (1 << 64) if value >> 63 else value


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """The fields of a message: number and value.

    Kinds: 0 a number of variable length, 1 eight bytes, 2 a length and bytes, 5 a float.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 1:
                yield key >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = _varint(data, at)
                if size > len(data) - at:
                    raise _Damaged(f"a field of {size} bytes leaves the file")
                yield key >> 3, data[at : at + size]
                at += size
            case 5:
                yield key >> 3, struct.unpack_from("<f", data, at)[0]
                at += 4
            case other:
                raise _Damaged(f"a field has the unknown kind {other}")
    if at != len(data):
        raise _Damaged("its last field is cut off")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(_LONGEST_VARINT):
        if at >= len(data):
            raise _Damaged("a number is cut off")
        value |= (data[at] & 0x7F) << 7 * i
        at += 1
        if not data[at - 1] & 0x80:
            return value & (1 << 64) - 1, at
    raise _Damaged("a number is too long")
