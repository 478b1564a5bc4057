"""Files that are old or new, never half."""

import os
import stat
from pathlib import Path

import pytest

from edgellm.new_file import new_file


class _Stop(BaseException):
    """What no handler of errors takes: Ctrl-C."""


def test_a_file_comes_whole_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with new_file(path, 0o600) as stream:
        stream.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["a"]


def test_a_failure_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(_Stop), new_file(path) as stream:
        stream.write(b"new")
        raise _Stop
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_full_disk_leaves_nothing(tmp_path: Path, full_disk: None) -> None:
    with pytest.raises(OSError, match="No space left"), new_file(tmp_path / "a") as stream:
        stream.write(b"new")
    assert not os.listdir(tmp_path)


def test_what_a_dead_process_left_of_the_file_goes(tmp_path: Path) -> None:
    dead, other = tmp_path / f".a.{2**22 + 1}.0f.unfinished", tmp_path / ".b.1.0f.unfinished"
    alive, named = tmp_path / f".a.{os.getpid()}.0f.unfinished", tmp_path / ".a.b.unfinished"
    for left in (dead, other, alive, named):
        left.touch()
    with new_file(tmp_path / "a"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"a", other.name, alive.name, named.name}
