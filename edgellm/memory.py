"""How much memory this process may take, and has taken. Knows nothing of what it is for.

psutil tells where there is no /proc: importing it takes 1 MB, and 10 ms of every start.
"""

from dataclasses import dataclass
from pathlib import Path

from edgellm.linux import CGROUP_ROOT, OWN_CGROUPS, CgroupVersion, control_groups, read_file

# Version: the files of the limit and of what is in use, and what memory.stat calls reclaimable.
_FILES: dict[CgroupVersion, tuple[str, str, str]] = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
_NO_LIMIT = 1 << 60  # version 1 says it with a number near 2^63, version 2 with "max"


@dataclass(frozen=True)
class GPUMemory:
    """Bytes that programs may take of a GPU's, and in one buffer. is_shared: they are those of the
    processor, which has them no more."""

    usable: int
    at_once: int
    is_shared: bool = False


def available_memory(root: Path = CGROUP_ROOT, own_groups: Path = OWN_CGROUPS) -> int:
    """Bytes that can be allocated without swapping, on the machine and in the control group."""
    left = (_left(*found) for found in control_groups("memory", root, own_groups))
    return min([_free_memory(), *(n for n in left if n is not None)])


def memory_limit(root: Path = CGROUP_ROOT, own_groups: Path = OWN_CGROUPS) -> int | None:
    """Bytes that the control group and those above it allow; None without a limit."""
    limits = (_limit(*found) for found in control_groups("memory", root, own_groups))
    return min((limit for limit in limits if limit is not None), default=None)


def resident_memory() -> int:
    """Bytes of this process that are in memory now, mapped files included."""
    if (told := _told("self/status", "VmRSS")) is not None:
        return told
    import psutil

    return int(psutil.Process().memory_info().rss)


def peak_memory() -> int | None:
    """The most bytes that were resident at once so far; None where the system does not say."""
    if (told := _told("self/status", "VmHWM")) is not None:
        return told
    import psutil

    peak: int | None = getattr(psutil.Process().memory_info(), "peak_wset", None)
    return peak


def _free_memory() -> int:
    """Bytes of the machine that can be allocated without swapping."""
    if (told := _told("meminfo", "MemAvailable")) is not None:
        return told
    import psutil

    return int(psutil.virtual_memory().available)


def _told(file: str, name: str) -> int | None:
    """Bytes that a file of /proc has under a name; None where there is no such file or name."""
    for line in read_file(Path("/proc") / file).splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return None


def _limit(version: CgroupVersion, group: Path) -> int | None:
    text = read_file(group / _FILES[version][0])
    return int(text) if text.isdecimal() and int(text) < _NO_LIMIT else None


def _left(version: CgroupVersion, group: Path) -> int | None:
    """Bytes left below the limit of a control group; None when it sets none."""
    _, usage, reclaimable = _FILES[version]
    limit, used = _limit(version, group), read_file(group / usage)
    if limit is None or not used.isdecimal():
        return None
    stat = dict(line.split(maxsplit=1) for line in read_file(group / "memory.stat").splitlines())
    return max(0, limit - int(used) + int(stat.get(reclaimable, "0")))
