"""Caches of versions that nobody runs any more go, and nothing else."""

import os
import time
from pathlib import Path

import pytest

from edgellm.old_folders import UNUSED, mark_used

OWN, RECENT, OLD = (digit * 24 for digit in "0af")


def make(folder: Path, age: float) -> Path:
    folder.mkdir(parents=True)
    (folder / "kernel.code").write_bytes(b"code")
    set_age(folder, age)
    return folder


def set_age(path: Path, age: float) -> None:
    used = time.time() - age
    os.utime(path, (used, used), follow_symlinks=False)


def test_what_was_not_used_for_long_goes(tmp_path: Path) -> None:
    own = make(tmp_path / OWN, UNUSED + 60)
    recent, old = make(tmp_path / RECENT, UNUSED - 60), make(tmp_path / OLD, UNUSED + 60)
    mark_used(own)
    assert (own / "kernel.code").exists() and (recent / "kernel.code").exists()
    assert not old.exists()
    assert time.time() - own.stat().st_mtime < 60


def test_what_is_no_folder_of_ours_stays(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    own, elsewhere = make(cache / OWN, 0), make(tmp_path / "elsewhere", UNUSED + 60)
    other = make(cache / "linux-6.1", UNUSED + 60)
    file, link = cache / ("1" * 24), cache / ("2" * 24)
    file.touch()
    link.symlink_to(elsewhere)
    for path in (file, link):
        set_age(path, UNUSED + 60)
    mark_used(own)
    assert file.exists() and (elsewhere / "kernel.code").exists() and other.exists()


def test_a_cache_that_is_not_there_is_no_matter(tmp_path: Path) -> None:
    mark_used(tmp_path / "none" / OWN)
    assert not list(tmp_path.iterdir())


def test_the_processor_marks_its_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgellm.backends import Backends

    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    old = make(tmp_path / "cache/kernels" / OLD, UNUSED + 60)
    backends = Backends(print)
    backends.get("cpu")
    backends.close()
    (own,) = (tmp_path / "cache/kernels").iterdir()
    assert own != old and time.time() - own.stat().st_mtime < 60
