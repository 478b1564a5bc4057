"""How much memory this process may take, and has taken. Knows nothing of what it is for."""

from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def available_memory(cgroup: Path = _CGROUP) -> int:
    """Bytes that can be allocated without swapping, on the machine and in the control group."""
    own = "/"
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        if line.startswith("0::"):
            own = line[3:]
    inner = cgroup / own.strip("/")
    left = [
        _left(folder, "memory.max", "memory.current", "inactive_file")
        for folder in (inner, *inner.parents)
        if folder.is_relative_to(cgroup)
    ]
    v1 = cgroup / "memory"
    left.append(_left(v1, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))
    return min([int(psutil.virtual_memory().available), *(n for n in left if n is not None)])


def peak_memory() -> int | None:
    """The most bytes that were resident at once so far; None where the system does not say."""
    for line in _read(Path("/proc/self/status")).splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    peak: int | None = getattr(psutil.Process().memory_info(), "peak_wset", None)
    return peak


def _left(group: Path, limit: str, usage: str, reclaimable: str) -> int | None:
    """Bytes left below the limit of a control group; None when it sets none."""
    most, used = _read(group / limit), _read(group / usage)
    if not most.isdecimal() or not used.isdecimal():  # "max", or no such file
        return None
    stat = dict(line.split(maxsplit=1) for line in _read(group / "memory.stat").splitlines())
    return max(0, int(most) - int(used) + int(stat.get(reclaimable, "0")))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
