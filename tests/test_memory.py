"""Memory that is left, read from control groups made up for the test, and memory given back."""

import ctypes
import sys
from pathlib import Path

import psutil
import pytest

from edgellm import memory
from edgellm.linux import give_back_freed_memory
from edgellm.memory import available_memory, memory_limit, resident_memory


def group(folder: Path, limit: str, used: int, cache: int, v1: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("limit_in_bytes", "usage_in_bytes") if v1 else ("max", "current")
    (folder / f"memory.{names[0]}").write_text(f"{limit}\n")
    (folder / f"memory.{names[1]}").write_text(f"{used}\n")
    stat = "total_inactive_file" if v1 else "inactive_file"
    (folder / "memory.stat").write_text(f"anon 5\n{stat} {cache}\n")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with 1000 bytes, and this process in the group /outer/inner."""

    monkeypatch.setattr(memory, "_free_memory", lambda: 1000)
    listing = tmp_path / "own"
    listing.write_text("5:memory:/outer/inner\n3:cpu:/\n0::/outer/inner\n")
    return listing


def test_without_limits_it_is_what_the_machine_has(tmp_path: Path, own: Path) -> None:
    assert (available_memory(tmp_path, own), memory_limit(tmp_path, own)) == (1000, None)
    group(tmp_path / "outer" / "inner", "max", 10, 0)
    group(tmp_path / "memory", "9223372036854771712", 10, 0, v1=True)
    assert (available_memory(tmp_path, own), memory_limit(tmp_path, own)) == (1000, None)


def test_the_tightest_group_above_us_decides(tmp_path: Path, own: Path) -> None:
    group(tmp_path / "outer" / "inner", "900", 300, 100)
    assert (available_memory(tmp_path, own), memory_limit(tmp_path, own)) == (700, 900)
    group(tmp_path / "outer", "500", 300, 50)
    assert (available_memory(tmp_path, own), memory_limit(tmp_path, own)) == (250, 500)
    group(tmp_path / "memory" / "outer", "240", 100, 0, v1=True)
    assert (available_memory(tmp_path, own), memory_limit(tmp_path, own)) == (140, 240)
    group(tmp_path / "memory", "60", 100, 0, v1=True)
    assert (available_memory(tmp_path, own), memory_limit(tmp_path, own)) == (0, 60)


def test_a_group_elsewhere_does_not_count(tmp_path: Path, own: Path) -> None:
    group(tmp_path / "other", "5", 1, 0)
    group(tmp_path / "cpu", "5", 1, 0, v1=True)
    assert available_memory(tmp_path, own) == 1000


def test_this_machine_has_some() -> None:
    assert 0 < available_memory() <= psutil.virtual_memory().total


def test_what_is_resident_is_as_psutil_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = resident_memory()
    monkeypatch.setattr(memory, "_told", lambda file, name: None)
    assert abs(told - resident_memory()) < 64 << 20
    assert 0 < available_memory() <= psutil.virtual_memory().total


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc"
)
def test_what_lies_below_something_in_use_is_given_back() -> None:
    blocks = [bytearray(60_000) for _ in range(1000)]
    above = bytearray(60_000)
    blocks.clear()
    before = resident_memory()
    give_back_freed_memory()
    assert before - resident_memory() > 30_000_000
    assert len(above) == 60_000
