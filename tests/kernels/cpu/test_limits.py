"""Counting processors: control groups of both versions from files, the affinity mask."""

import os
from pathlib import Path

import pytest

from edgellm.kernels.cpu import limits
from edgellm.kernels.cpu.limits import affinity_cpus, quota_cpus, usable_threads


class Groups:
    """A made-up control group tree."""

    def __init__(self, folder: Path) -> None:
        self.root, self.own = folder / "cgroup", folder / "own"

    def put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def quota(self, own: str) -> float | None:
        self.own.write_text(own)
        return quota_cpus(self.root, self.own)


@pytest.fixture
def groups(tmp_path: Path) -> Groups:
    return Groups(tmp_path)


def test_no_control_groups_is_no_limit(tmp_path: Path) -> None:
    assert quota_cpus(tmp_path / "none", tmp_path / "neither") is None


def test_version_2_takes_the_smallest_on_the_way_up(groups: Groups) -> None:
    groups.put("cpu.max", "max 100000\n")
    groups.put("a/cpu.max", "150000 100000\n")
    groups.put("a/b/cpu.max", "400000 100000\n")
    groups.put("other/cpu.max", "10000 100000\n")
    assert groups.quota("0::/a/b\n") == 1.5
    assert groups.quota("0::/\n") is None
    assert groups.quota("0::/other\n") == 0.1


def test_a_container_may_see_its_group_as_the_root(groups: Groups) -> None:
    groups.put("cpu.max", "200000 100000\n")
    assert groups.quota("0::/docker/0123/inner\n") == 2
    assert groups.quota("0::/../outside\n") == 2


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_version_1_under_either_name(groups: Groups, folder: str) -> None:
    own = "5:memory:/m\n3:cpu,cpuacct:/docker/0123\n1:name=systemd:/\n"
    groups.put(f"{folder}/cpu.cfs_quota_us", "-1\n")
    groups.put(f"{folder}/cpu.cfs_period_us", "100000\n")
    assert groups.quota(own) is None
    groups.put(f"{folder}/docker/0123/cpu.cfs_quota_us", "50000\n")
    groups.put(f"{folder}/docker/0123/cpu.cfs_period_us", "100000\n")
    assert groups.quota(own) == 0.5


def test_both_versions_at_once(groups: Groups) -> None:
    groups.put("cpu/cpu.cfs_quota_us", "300000\n")
    groups.put("cpu/cpu.cfs_period_us", "100000\n")
    assert groups.quota("2:cpu:/\n0::/\n") == 3


@pytest.mark.parametrize("text", ["", "max", "100000", "x y", "100000 0", "-5 100000", "0 100000"])
def test_a_file_that_makes_no_sense_is_no_limit(groups: Groups, text: str) -> None:
    groups.put("cpu.max", text)
    assert groups.quota("0::/\n") is None
    assert groups.quota("no colons here\n0:one\n") is None


@pytest.mark.parametrize(
    "quota, wanted, expected",
    [
        (None, None, 8),
        (None, 3, 3),
        (None, 100, 8),
        (2.0, None, 2),
        (2.5, None, 3),
        (2.0, 5, 2),
        (0.2, None, 1),
        (None, 0, 1),
        (None, -4, 1),
    ],
)
def test_threads(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, wanted: int | None, expected: int
) -> None:
    monkeypatch.setattr(limits, "affinity", lambda: set(range(8)))
    monkeypatch.setattr(limits, "fast_cores", len)
    monkeypatch.setattr(limits, "quota_cpus", lambda: quota)
    assert usable_threads(wanted) == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity mask here")
def test_the_affinity_mask_counts() -> None:
    before = os.sched_getaffinity(0)
    assert affinity_cpus() == len(before)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert affinity_cpus() == 1
        assert usable_threads(64) == 1
    finally:
        os.sched_setaffinity(0, before)
