"""A file of named contents: a header of JSON values and blocks of bytes, checked as a whole.

Layout: MAGIC, the header's length (8 bytes, little-endian), the header as UTF-8 JSON, the data,
and a BLAKE2b digest of all before it (32 bytes). A file is written beside the old one, on the disk
before it takes its name, readable by its owner alone: a process that dies at any moment leaves
the old file. Knows nothing of what is stored.
"""

import hashlib
import json
import mmap
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import psutil

from edgellm.errors import NoSession, SessionError

MAGIC = b"edgellm session\n"
_LENGTH, _DIGEST = 8, 32
_MOST = 1 << 28  # bytes of a header
_STEP = 1 << 24  # bytes digested at a time
_UNFINISHED = ".unfinished"


def write(path: Path, header: dict[str, Any], data: Iterable[bytes]) -> None:
    """Makes `path` a file of this contents, or leaves it as it is: SessionError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(path)
        new = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}{_UNFINISHED}")
        try:
            _write_new(new, header, data)
            os.replace(new, path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        _settle(path.parent)
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


def _write_new(path: Path, header: dict[str, Any], data: Iterable[bytes]) -> None:
    text = json.dumps(header).encode()
    digest = hashlib.blake2b(digest_size=_DIGEST)
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as stream:
        head = (MAGIC, len(text).to_bytes(_LENGTH, "little"), text)
        for part in chain(head, data):
            digest.update(part)
            stream.write(part)
        stream.write(digest.digest())
        stream.flush()
        os.fsync(stream.fileno())


def _settle(folder: Path) -> None:
    """Waits until the names in a folder are on the disk itself."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(path: Path) -> None:
    """Deletes what processes that died left of this file."""
    for left in path.parent.glob(f".{path.name}.*{_UNFINISHED}"):
        pid = left.name.removeprefix(f".{path.name}.").partition(".")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            left.unlink(missing_ok=True)
