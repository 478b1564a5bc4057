"""Where things live on disk. Knows nothing of what is stored there.

`EDGELLM_HOME` moves everything below one folder; otherwise platformdirs decides.
"""

import os
from pathlib import Path

import platformdirs

from edgellm.paths import typed_path


def _root(default: str) -> Path:
    home = os.environ.get("EDGELLM_HOME")
    return typed_path(home) if home else Path(default)


def _data() -> Path:
    return _root(platformdirs.user_data_dir("edgellm", appauthor=False))


def models_dir() -> Path:
    """Folder of the pulled model files."""
    return _data() / "models"


def history_file() -> Path:
    """The conversations of `edgellm chat`."""
    return _data() / "history.db"


def sessions_dir() -> Path:
    """Folder of the saved sessions."""
    return _data() / "sessions"


def cache_dir() -> Path:
    """Folder of everything that can be made again, such as compiled kernels."""
    return _root(platformdirs.user_cache_dir("edgellm", appauthor=False)) / "cache"


def config_dir() -> Path:
    """Folder of the user's own settings (`models.toml` over the packaged one)."""
    return _root(platformdirs.user_config_dir("edgellm", appauthor=False))


def socket_path() -> Path:
    """Where the server listens and clients look: `EDGELLM_SOCKET`, else the user's own."""
    given = os.environ.get("EDGELLM_SOCKET")
    if given:
        return typed_path(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "edgellm" if runtime else _data() / "run"
    return folder / "edgellm.sock"
