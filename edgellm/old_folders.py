"""Folders of a cache, one for each version of what is in them: those long unused are deleted.

A folder's modification time says when it was used last, and its name is a key: one of another
name is not ours to delete. Knows nothing of what is in them.
"""

import os
import re
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

UNUSED = 30 * 86400.0  # seconds
_KEY = re.compile("[0-9a-f]{24}")


def mark_used(folder: Path) -> None:
    """Says that the folder is in use, and deletes those beside it that nobody used for long.

    What cannot be marked or deleted stays as it is: a cache may be read-only, or gone. A process
    that has used a folder for so long without a start makes again what it needs of it.
    """
    with suppress(OSError):
        os.utime(folder)
        old = time.time() - UNUSED
        for other in os.scandir(folder.parent):
            found = other.stat(follow_symlinks=False)
            is_ours = stat.S_ISDIR(found.st_mode) and _KEY.fullmatch(other.name)
            if is_ours and found.st_mtime < old:
                shutil.rmtree(other.path, ignore_errors=True)
