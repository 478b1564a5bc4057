"""Writing large files so that a full disk or a crash leaves nothing half done behind.

Knows bytes, digests and folders; nothing of models or networks.
"""

import errno
import hashlib
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgellm.errors import DownloadError
from edgellm.pull.report import Report

BLOCK = 1 << 20  # bytes moved at a time


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns an OSError of the disk into a DownloadError: no other source would fare better."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(next(p for p in path.parents if p.exists())).free
            raise DownloadError(
                f"the disk is full ({free:,} bytes free in {path.parent}): make room and run the "
                "same command again"
            ) from error
        raise DownloadError(f"{path}: cannot be written: {error.strerror or error}") from error


def require_room(folder: Path, needed: int) -> None:
    """Fails before a download that cannot fit. needed: bytes."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DownloadError(
            f"not enough room in {folder}: {needed:,} bytes are needed and {free:,} are free"
        )


def join(parts: Iterable[Path], target: Path) -> None:
    """Writes the bytes of the parts, in order, to a new file."""
    with disk_errors(target), target.open("wb") as out:
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, out, BLOCK)


def sha256_of(path: Path, report: Report) -> str:
    """The digest of what is on disk, in lower-case hexadecimal digits."""
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
            done += len(block)
            report.advance("checking", done, total)
    return digest.hexdigest()
