"""Memory that is left, read from control groups made up for the test."""

from pathlib import Path

import psutil
import pytest

from edgellm import memory
from edgellm.memory import available_memory


def group(folder: Path, limit: str, used: int, cache: int, v1: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("limit_in_bytes", "usage_in_bytes") if v1 else ("max", "current")
    (folder / f"memory.{names[0]}").write_text(f"{limit}\n")
    (folder / f"memory.{names[1]}").write_text(f"{used}\n")
    stat = "total_inactive_file" if v1 else "inactive_file"
    (folder / "memory.stat").write_text(f"anon 5\n{stat} {cache}\n")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 1000 bytes, and this process in the group /outer/inner."""

    class Free:
        available = 1000

    read = memory._read
    own = Path("/proc/self/cgroup")
    monkeypatch.setattr(psutil, "virtual_memory", Free)
    monkeypatch.setattr(memory, "_read", lambda p: "0::/outer/inner" if p == own else read(p))


@pytest.mark.usefixtures("machine")
def test_without_limits_it_is_what_the_machine_has(tmp_path: Path) -> None:
    assert available_memory(tmp_path) == 1000
    group(tmp_path / "outer" / "inner", "max", 10, 0)
    assert available_memory(tmp_path) == 1000


@pytest.mark.usefixtures("machine")
def test_the_tightest_group_above_us_decides(tmp_path: Path) -> None:
    group(tmp_path / "outer" / "inner", "900", 300, 100)
    assert available_memory(tmp_path) == 700
    group(tmp_path / "outer", "500", 300, 50)
    assert available_memory(tmp_path) == 250
    group(tmp_path / "memory", "60", 100, 0, v1=True)
    assert available_memory(tmp_path) == 0


def test_this_machine_has_some() -> None:
    assert 0 < available_memory() <= psutil.virtual_memory().total
