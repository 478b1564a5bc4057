"""A folder of files that only this user can have written. Knows nothing of what is in them.

Where the system allows it the folder is held open, so that what was checked is what is used:
somebody who may rename a folder further up cannot put another one in its place.
"""

import os
import secrets
import stat
import weakref
from pathlib import Path

_HOLDS_FOLDERS = {os.open, os.unlink, os.rename} <= os.supports_dir_fd


class PrivateFolder:
    """Makes the folder if need be; OSError when that fails or others could write in it."""

    def __init__(self, path: Path) -> None:
        _make(path)
        self._path = path
        self._descriptor: int | None = None
        if _HOLDS_FOLDERS:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags)
            weakref.finalize(self, os.close, self._descriptor)
            _check(path, os.fstat(self._descriptor))
        elif path.is_symlink():
            raise PermissionError(f"{path} is a link: a real folder is needed")

    def read(self, name: str) -> bytes | None:
        """The whole file, or None when it is missing or cannot be read."""
        try:
            with open(self._place(name), "rb", opener=self._open) as file:
                return file.read()
        except OSError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Puts a file there at once or not at all; OSError when it cannot be written."""
        temporary = f".{name}.{secrets.token_hex(8)}"
        try:
            with open(self._place(temporary), "xb", opener=self._open) as file:
                file.write(data)
            os.replace(
                self._place(temporary),
                self._place(name),
                src_dir_fd=self._descriptor,
                dst_dir_fd=self._descriptor,
            )
        except BaseException:  # an interrupt, too, must leave nothing behind
            self._remove(temporary)
            raise

    def _place(self, name: str) -> str:
        return str(self._path / name) if self._descriptor is None else name

    def _open(self, place: str, flags: int) -> int:
        return os.open(place, flags, 0o600, dir_fd=self._descriptor)

    def _remove(self, name: str) -> None:
        try:
            os.unlink(self._place(name), dir_fd=self._descriptor)
        except OSError:
            pass


def _make(path: Path) -> None:
    """Makes the folder and those above it that are missing, all for this user alone."""
    if not path.parent.exists():
        _make(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def _check(path: Path, info: os.stat_result) -> None:
    if info.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to user {info.st_uid}, not to us")
    if info.st_mode & 0o077:
        mode = stat.filemode(info.st_mode)
        raise PermissionError(f"{path} is open to others ({mode}): its mode should be 0700")
