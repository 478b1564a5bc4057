"""What doctor looks at: folders, and drivers that misbehave."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgellm import machine
from tests.waiting import PATIENCE


def test_this_machine_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "_opencl", lambda: ("skipped",))
    (tmp_path / "models").mkdir()
    (tmp_path / "models/m.gguf").write_bytes(bytes(1234))
    found = machine.examine()
    assert 1 <= found.cpu.usable <= found.cpu.cores <= found.cpu.allowed <= found.cpu.logical
    assert 0 < found.memory.available <= found.memory.total
    assert found.versions["edgellm"] and found.versions["numpy"]
    models, cache, _ = found.folders
    assert (models.purpose, models.size, models.exists, models.writable) == (
        "models",
        1234,
        True,
        True,
    )
    assert (cache.exists, cache.writable, cache.size) == (False, True, 0)
    assert os.listdir(tmp_path) == ["models"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    tmp_path.chmod(0o500)
    try:
        assert not machine._folder("models", tmp_path / "models").writable
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('[\"card\"]')", "card"),
        ("print('[]')", "no device"),
        ("print('garbage')", "cannot be read"),
        ("raise SystemError('no driver')", "SystemError: no driver"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "crashes (SIGKILL)"),
        ("import time; time.sleep(3600)", "no answer within"),
    ],
)
def test_a_misbehaving_driver_is_reported(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(machine, "_OPENCL_PROBE", program)
    monkeypatch.setattr(machine, "_OPENCL_SECONDS", 1.0 if "sleep" in program else PATIENCE)
    lines = machine._opencl()
    assert len(lines) == 1 and said in lines[0]


def test_without_pyopencl_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*args: Any, **options: Any) -> None:
        raise AssertionError("started a process")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", start)
    assert "not installed" in machine._opencl()[0]


def test_looking_loads_no_compiler() -> None:
    program = "import edgellm.machine, sys; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
