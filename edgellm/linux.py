"""What Linux tells and takes: control groups and their settings, priorities, memory given back.

Elsewhere its small files are missing, which reads as no limit. Knows nothing of what is limited.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

CGROUP_ROOT = Path("/sys/fs/cgroup")  # where control groups are mounted
OWN_CGROUPS = Path("/proc/self/cgroup")  # lists ours, in lines "id:controllers:path"

CgroupVersion = Literal[1, 2]


def read_file(path: Path) -> str:
    """The text of a small file, "" when there is none or it is not ours to read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def control_groups(
    controller: str, root: Path, own_groups: Path
) -> Iterator[tuple[CgroupVersion, Path]]:
    """The folders where `controller` may limit this process: its groups and all above them.

    root, own_groups: CGROUP_ROOT and OWN_CGROUPS, or what a test puts in their place. A container
    often sees its own group as the root, under a path that does not exist there: folders may be
    missing.
    """
    for line in read_file(own_groups).splitlines():
        words = line.split(":", 2)
        if len(words) != 3:
            continue
        _, controllers, path = words
        if not controllers:
            yield from ((2, folder) for folder in _upwards(root, path))
        elif controller in controllers.split(","):
            for name in {controller, controllers}:
                yield from ((1, folder) for folder in _upwards(root / name, path))


def step_back(pid: int, steps: int) -> None:
    """Has another process wait for the processor behind this one, by so many steps of niceness.

    Where Linux groups processes by session (sched(7), autogroup), niceness counts within a session
    alone: a process that leads its own one needs the session's, too.
    """
    with suppress(OSError, AttributeError):  # Windows has no niceness
        nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + steps)
        os.setpriority(os.PRIO_PROCESS, pid, nice)
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def give_back_freed_memory() -> None:
    """Has the C library return to the system what it holds for later allocations.

    glibc keeps what lies below something in use, and blocks as large as any that was freed.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # glibc's own
        trim(ctypes.c_size_t(0))


def _upwards(root: Path, path: str) -> list[Path]:
    """The folder of a group and of all above it, the root's included."""
    inner = root / path.lstrip("/")
    return [folder for folder in (inner, *inner.parents) if folder.is_relative_to(root)]
