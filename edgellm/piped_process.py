"""A process of Python that answers on its pipes. Knows nothing of what is asked there."""

import json
import os
import subprocess
import sys
from contextlib import suppress

_PATH = "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"


def start(code: str) -> subprocess.Popen[bytes]:
    """One that runs statements with this process's import path and nothing else (`-I -S`).

    What it says of errors is lost. OSError when it cannot start.
    """
    path = json.dumps([os.path.abspath(entry) for entry in sys.path])
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PATH + code, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills it, closes its pipes and waits until it has gone."""
    process.kill()
    with suppress(OSError), process:  # a pipe may hold what was not written
        pass
