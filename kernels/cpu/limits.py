"""How many processors this process may really use. Knows nothing of threads or kernels."""

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def affinity_cpus() -> int:
    """Processors in the affinity mask, or all of them where there is no such thing."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def quota_cpus() -> float | None:
    """Processors' worth of time that the control group grants; None is no limit.

    Reads cgroup v2's cpu.max of our own group and its parents, then v1's cfs quota.
    """
    limits = [
        quota
        for folder in _own_groups()
        if (quota := _quota(_read(folder / "cpu.max").split())) is not None
    ]
    v1 = [_read(_CGROUP / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    if all(v1) and (quota := _quota(v1)) is not None:
        limits.append(quota)
    return min(limits, default=None)


def usable_threads(wanted: int | None = None) -> int:
    """Threads to run: `wanted`, but never more than the mask and the quota allow."""
    quota = quota_cpus()
    most = affinity_cpus() if quota is None else min(affinity_cpus(), max(1, math.ceil(quota)))
    return max(1, most if wanted is None else min(wanted, most))


def _own_groups() -> list[Path]:
    """Folders of our control group and all above it, innermost first."""
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        if line.startswith("0::"):
            inner = _CGROUP / line[3:].lstrip("/")
            chain = [inner, *inner.parents]
            return [f for f in chain if f == _CGROUP or _CGROUP in f.parents]
    return [_CGROUP]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _quota(words: list[str]) -> float | None:
    """Processors from "quota period" in microseconds; "max" and -1 are no limit."""
    try:
        quota, period = int(words[0]), int(words[1])
    except (IndexError, ValueError):
        return None
    return quota / period if quota > 0 and period > 0 else None
