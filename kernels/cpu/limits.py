"""How many processors this process may really use. Knows nothing of threads or kernels."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


def affinity_cpus() -> int:
    """Processors in the affinity mask, or all of them where there is no such thing."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def quota_cpus(root: Path = CGROUP, own_groups: Path = OWN_GROUPS) -> float | None:
    """Processors' worth of time that the control groups grant; None is no limit.

    root: where control groups are mounted; own_groups: the file that lists ours. Each group
    above ours may set a limit too. A container often sees its own group as the root, under a
    path that does not exist there: missing folders are passed over.
    """
    quotas = []
    for controllers, path in _own_groups(own_groups):
        if controllers == [""]:  # version 2
            quotas += [_quota(_read(folder / "cpu.max").split()) for folder in _up(root, path)]
        elif "cpu" in controllers:
            names = {"cpu", ",".join(controllers)}
            folders = [folder for name in names for folder in _up(root / name, path)]
            quotas += [_quota([_read(f / name) for name in _V1_FILES]) for f in folders]
    return min((quota for quota in quotas if quota is not None), default=None)


def usable_threads(wanted: int | None = None) -> int:
    """Threads to run: `wanted`, but never more than the mask and the quota allow.

    A quota that is not whole is rounded up: it then slows all threads a little.
    """
    quota = quota_cpus()
    most = affinity_cpus() if quota is None else min(affinity_cpus(), math.ceil(quota))
    return max(1, most if wanted is None else min(wanted, most))


_V1_FILES = ("cpu.cfs_quota_us", "cpu.cfs_period_us")


def _own_groups(listing: Path) -> Iterator[tuple[list[str], str]]:
    """(controllers, path) of each group this process is in: lines "id:controllers:path"."""
    for line in _read(listing).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            yield parts[1].split(","), parts[2]


def _up(root: Path, path: str) -> list[Path]:
    """The folder of a group and of all above it, the root's included."""
    inner = root / path.lstrip("/")
    return [folder for folder in (inner, *inner.parents) if folder.is_relative_to(root)]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _quota(words: list[str]) -> float | None:
    """Processors from "quota period" in microseconds; "max" and -1 are no limit."""
    try:
        quota, period = int(words[0]), int(words[1])
    except (IndexError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None
