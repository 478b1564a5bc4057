"""Which processors are worth a thread, told by trees of files as Linux has them."""

from pathlib import Path

import pytest

from edgellm.kernels.cpu import cores, limits
from edgellm.kernels.cpu.cores import fast_cores


def put(root: Path, path: str, text: object) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def siblings(root: Path, lists: list[str]) -> None:
    """lists: for each processor, those of its core."""
    for number, text in enumerate(lists):
        put(root, f"system/cpu/cpu{number}/topology/thread_siblings_list", text)


def test_where_nothing_is_told_each_processor_is_a_core(tmp_path: Path) -> None:
    assert fast_cores({0, 1, 5}, tmp_path) == 3


@pytest.mark.parametrize("lists", [["0-1", "0-1", "2-3", "2-3"], ["0,2", "1,3", "0,2", "1,3"]])
def test_two_processors_of_a_core_are_one(tmp_path: Path, lists: list[str]) -> None:
    siblings(tmp_path, lists)
    assert fast_cores({0, 1, 2, 3}, tmp_path) == 2
    assert fast_cores({0, 3}, tmp_path) == 2
    assert fast_cores({1}, tmp_path) == 1


def test_intel_names_its_fast_cores(tmp_path: Path) -> None:
    siblings(tmp_path, ["0-1", "0-1", "2-3", "2-3", "4", "5", "6", "7"])
    put(tmp_path, "cpu_core/cpus", "0-3")
    put(tmp_path, "cpu_atom/cpus", "4-7")
    assert fast_cores(set(range(8)), tmp_path) == 2
    assert fast_cores({4, 5, 6}, tmp_path) == 3  # only slow ones are allowed


def test_arm_tells_capacities(tmp_path: Path) -> None:
    for number, capacity in enumerate([446, 446, 446, 446, 1024, 1024, 1000]):
        put(tmp_path, f"system/cpu/cpu{number}/cpu_capacity", capacity)
    assert fast_cores(set(range(7)), tmp_path) == 3
    assert fast_cores({0, 1}, tmp_path) == 2


def test_a_thread_for_each_fast_core_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    siblings(tmp_path, ["0-1", "0-1", "2-3", "2-3"])
    monkeypatch.setattr(limits, "affinity", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(limits, "quota_cpus", lambda: None)
    monkeypatch.setattr(limits, "fast_cores", lambda found: fast_cores(found, tmp_path))
    assert [limits.usable_threads(wanted) for wanted in (None, 1, 3, 4, 9)] == [2, 1, 3, 4, 4]
    monkeypatch.setattr(limits, "quota_cpus", lambda: 0.5)
    assert [limits.usable_threads(wanted) for wanted in (None, 3)] == [1, 1]


def test_this_machine_has_a_core() -> None:
    assert 1 <= fast_cores(limits.affinity()) <= limits.affinity_cpus()
    assert cores._counted() >= 1
