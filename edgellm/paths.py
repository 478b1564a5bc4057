"""Paths as people type them. Knows nothing of what lies there."""

import errno
import os
from pathlib import Path


def typed_path(text: str | os.PathLike[str]) -> Path:
    """The path, its ~ expanded where that is the home of a user."""
    return Path(os.path.expanduser(text))


def typed_file(text: str | os.PathLike[str]) -> Path | None:
    """The file that is meant; None when there is none. PermissionError where one may not look."""
    path = typed_path(text)
    try:
        return path if path.is_file() else None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None
