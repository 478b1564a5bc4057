"""How many processors this process may really use. Knows nothing of threads or kernels."""

import math
import os
from pathlib import Path

from edgellm.kernels.cpu.cores import fast_cores
from edgellm.linux import CGROUP_ROOT, OWN_CGROUPS, CgroupVersion, control_groups, read_file

# Version: the files that hold a quota and its period, in microseconds.
_FILES: dict[CgroupVersion, tuple[str, ...]] = {
    1: ("cpu.cfs_quota_us", "cpu.cfs_period_us"),
    2: ("cpu.max",),
}


def affinity() -> set[int]:
    """Processors in the affinity mask, or all of them where there is no such thing."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def affinity_cpus() -> int:
    """How many those are."""
    return len(affinity())


def quota_cpus(root: Path = CGROUP_ROOT, own_groups: Path = OWN_CGROUPS) -> float | None:
    """Processors' worth of time that the control groups grant; None is no limit."""
    quotas = (_quota(*found) for found in control_groups("cpu", root, own_groups))
    return min((quota for quota in quotas if quota is not None), default=None)


def usable_threads(wanted: int | None = None) -> int:
    """Threads to run: `wanted`, but never more than the mask and the quota allow.

    Unless told otherwise, one for each fast core (cores.py). A quota that is not whole is rounded
    up: it then slows all threads a little.
    """
    quota = quota_cpus()
    most = affinity_cpus() if quota is None else min(affinity_cpus(), math.ceil(quota))
    return max(1, min(fast_cores(affinity()) if wanted is None else wanted, most))


def _quota(version: CgroupVersion, group: Path) -> float | None:
    """Processors that a group grants; "max" and -1 are no limit."""
    words = " ".join(read_file(group / name) for name in _FILES[version]).split()
    try:
        quota, period = int(words[0]), int(words[1])
    except (IndexError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None
