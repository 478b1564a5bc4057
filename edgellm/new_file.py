"""Files that are old or new, never half: written beside the old one, and named once on the disk.

A process that dies at any moment leaves what was there. Knows nothing of what is written.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_UNFINISHED = ".unfinished"


@contextmanager
def new_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A stream of what `path` will be when the block ends without an error. OSError of the disk.

    mode: permissions, before the umask.
    """
    _sweep(path)
    new = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}{_UNFINISHED}")
    try:
        stream = os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb")
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        finally:
            with suppress(OSError):  # it would hide the first failure, and say less
                stream.close()
        os.replace(new, path)
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)
    with suppress(OSError):  # not every system lets a folder be asked
        settle(path.parent)


def settle(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk itself."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(path: Path) -> None:
    """Deletes what processes that died left of this file."""
    import psutil  # for whoever writes files

    begun = f".{path.name}."
    for left in path.parent.iterdir():
        if left.name.startswith(begun) and left.name.endswith(_UNFINISHED):
            pid = left.name.removeprefix(begun).partition(".")[0]
            if pid.isdecimal() and not psutil.pid_exists(int(pid)):
                left.unlink(missing_ok=True)
