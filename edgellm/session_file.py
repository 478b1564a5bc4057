"""A file of named contents: a header of JSON values and blocks of bytes, checked as a whole.

Layout: MAGIC, the header's length (8 bytes, little-endian), the header as UTF-8 JSON, the data,
and a BLAKE2b digest of all before it (32 bytes). Its owner alone may read it. Knows nothing of what
is stored.
"""

import hashlib
import json
import mmap
import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from edgellm.errors import NoSession, SessionError
from edgellm.new_file import new_file

MAGIC = b"edgellm session\n"
_LENGTH, _DIGEST = 8, 32
_MOST = 1 << 28  # bytes of a header
_STEP = 1 << 24  # bytes digested at a time


def write(path: Path, header: dict[str, Any], data: Iterable[bytes]) -> None:
    """Makes `path` a file of this contents, or leaves it as it is: SessionError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with new_file(path, 0o600) as stream:
            _write(stream, header, data)
    except OSError as error:
        raise SessionError(f"{path}: cannot be saved: {error.strerror or error}") from error


def read(path: Path) -> tuple[dict[str, Any], memoryview]:
    """The header and the data, a view of the mapped file. SessionError unless all is as written."""
    whole = _mapped(path)
    header, start = _header(path, whole)
    if _digest(whole) != whole[-_DIGEST:]:
        raise SessionError(f"{path}: is damaged: delete the session")
    return header, whole[start:-_DIGEST]


def read_header(path: Path) -> dict[str, Any]:
    """The header alone, without a look at the rest of the file. Errors are those of read."""
    return _header(path, _mapped(path))[0]


def _mapped(path: Path) -> memoryview:
    try:
        with path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size <= len(MAGIC) + _LENGTH + _DIGEST:
                raise SessionError(f"{path}: is too short for a saved session")
            return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        raise NoSession(path.stem) from None
    except OSError as error:
        raise SessionError(f"{path}: cannot be read: {error.strerror or error}") from error


def _header(path: Path, whole: memoryview) -> tuple[dict[str, Any], int]:
    """The header and where the data begins."""
    start = len(MAGIC) + _LENGTH
    if whole[: len(MAGIC)] != MAGIC:
        raise SessionError(f"{path}: is no saved session")
    length = int.from_bytes(whole[len(MAGIC) : start], "little")
    header = None
    if length <= min(_MOST, len(whole) - start - _DIGEST):
        with suppress(ValueError, RecursionError):
            header = json.loads(bytes(whole[start : start + length]))
    if not isinstance(header, dict):
        raise SessionError(f"{path}: has no header that can be read: delete the session")
    return header, start + length


def _digest(whole: memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for start in range(0, len(whole) - _DIGEST, _STEP):
        digest.update(whole[start : min(start + _STEP, len(whole) - _DIGEST)])
    return digest.digest()


def _write(stream: BinaryIO, header: dict[str, Any], data: Iterable[bytes]) -> None:
    text = json.dumps(header).encode()
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for part in chain((MAGIC, len(text).to_bytes(_LENGTH, "little"), text), data):
        digest.update(part)
        stream.write(part)
    stream.write(digest.digest())
