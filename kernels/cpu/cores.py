"""How many cores are worth a thread each: the fast ones, and one of the processors of each.

Threads share work evenly and meet after each op, so that all wait for the slowest; and two
processors of one core share its units and its caches. Knows nothing of limits or of threads.
"""

import ctypes
import os
import sys
from collections.abc import Set
from pathlib import Path

from edgellm.linux import read_file

SYSTEM = Path("/sys/devices")
ALIKE = 0.9  # of the capacity of the fastest core: turbo modes favour some of one kind


def fast_cores(processors: Set[int], root: Path = SYSTEM) -> int:
    """Of these processors (numbers of the system), cores of the fastest kind, at least 1.

    Linux tells which share a core, and which are fast: Intel's under `cpu_core`, Arm's by their
    capacity. Elsewhere the system is asked for the number alone.
    """
    if sys.platform != "linux" and root == SYSTEM:
        return max(1, min(len(processors), _counted()))
    fast = _numbers(read_file(root / "cpu_core/cpus")) & processors or processors
    folders = {number: root / f"system/cpu/cpu{number}" for number in fast}
    capacities = {n: read_file(folder / "cpu_capacity") for n, folder in folders.items()}
    if all(text.isdecimal() for text in capacities.values()):
        best = max(int(text) for text in capacities.values())
        fast = {n for n, text in capacities.items() if int(text) >= ALIKE * best}
    shared = (read_file(folders[n] / "topology/thread_siblings_list") or str(n) for n in fast)
    return max(1, len(set(shared)))


def _counted() -> int:
    if sys.platform == "darwin":
        count, size = ctypes.c_int(0), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
        name = b"hw.perflevel0.physicalcpu"  # of the fastest kind; missing before Apple's own
        ask = ctypes.CDLL(None).sysctlbyname
        if ask(name, ctypes.byref(count), ctypes.byref(size), None, 0) == 0:
            return count.value
    import psutil  # not needed, nor paid for, on Linux

    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def _numbers(text: str) -> set[int]:
    """Of a list as Linux writes them: "0-3,8"."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
