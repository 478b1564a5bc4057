"""What this machine offers: processor, memory, OpenCL devices, folders, versions.

Looks and reports; decides nothing and changes nothing.
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from edgellm import config
from edgellm.kernels.cpu.cores import fast_cores
from edgellm.kernels.cpu.isa import host_isa, processor
from edgellm.kernels.cpu.limits import affinity, affinity_cpus, quota_cpus, usable_threads
from edgellm.linux import read_file
from edgellm.memory import available_memory, memory_limit
from edgellm.signals import signal_name
from edgellm.version import __version__

# What kernels may ask for, in LLVM's words, on x86-64 and on AArch64.
_FEATURES = (
    "avx avx2 fma f16c bmi2 avxvnni avx512f avx512bw avx512vl avx512vnni avx512bf16 avx512vbmi "
    "avx512fp16 amx-int8 amx-bf16 neon fullfp16 dotprod i8mm bf16 sve sve2 sme"
).split()
_PACKAGES = ("numpy", "numba", "llvmlite", "pyopencl", "gguf", "huggingface_hub", "textual")
_OPENCL_SECONDS = 20.0
# In a process of its own: a broken driver may crash or hang instead of raising.
_OPENCL_PROBE = """
import json
from edgellm.kernels.opencl.backend import report
print(json.dumps(report()))
"""


@dataclass(frozen=True)
class Cpu:
    """llvm: LLVM's name for the model, which kernels are compiled for. isa: the instruction set
    that kernels use; isas: those that EDGELLM_ISA may name. logical: processors of the machine;
    allowed: those this process may run on; cores: the fast cores among them; quota: processors'
    worth of time the control group grants, None without a limit; usable: threads that edgellm
    starts unless told otherwise."""

    model: str
    llvm: str
    machine: str
    features: tuple[str, ...]
    isa: str
    isas: tuple[str, ...]
    logical: int
    allowed: int
    cores: int
    quota: float | None
    usable: int


@dataclass(frozen=True)
class MemoryState:
    """Bytes. limit: of the control group, None without one."""

    total: int
    available: int
    limit: int | None


@dataclass(frozen=True)
class Folder:
    """A folder of ours: bytes of the files in it, and free on its disk."""

    purpose: str
    path: str
    exists: bool
    writable: bool
    size: int
    free: int


@dataclass(frozen=True)
class Machine:
    """opencl: one line for each device, or one that says why there is none."""

    cpu: Cpu
    memory: MemoryState
    opencl: tuple[str, ...]
    folders: tuple[Folder, ...]
    pip: bool
    versions: dict[str, str]


def examine() -> Machine:
    """Looks at everything; takes about a second where OpenCL is installed."""
    return Machine(
        cpu=_cpu(),
        memory=_memory(),
        opencl=_opencl(),
        folders=tuple(
            _folder(purpose, path)
            for purpose, path in (
                ("models", config.models_dir()),
                ("cache", config.cache_dir()),
                ("settings", config.config_dir()),
            )
        ),
        pip=importlib.util.find_spec("pip") is not None,
        versions=_versions(),
    )


def _cpu() -> Cpu:
    host = processor()
    return Cpu(
        model=cpu_name() or platform.processor() or host.cpu,
        llvm=host.cpu,
        machine=platform.machine(),
        features=tuple(name for name in _FEATURES if host.has(name)),
        isa=host_isa().name,
        isas=host.variants,
        logical=os.cpu_count() or 1,
        allowed=affinity_cpus(),
        cores=fast_cores(affinity()),
        quota=quota_cpus(),
        usable=usable_threads(),
    )


def cpu_name() -> str | None:
    """What the maker calls the processor; None where the system does not say."""
    lines = read_file(Path("/proc/cpuinfo")).splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None)


def _memory() -> MemoryState:
    return MemoryState(
        total=psutil.virtual_memory().total, available=available_memory(), limit=memory_limit()
    )


def _opencl() -> tuple[str, ...]:
    if importlib.util.find_spec("pyopencl") is None:
        return ("pyopencl is not installed: no opencl backend (pip install 'edgellm[opencl]')",)
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _OPENCL_PROBE],
            capture_output=True,
            text=True,
            timeout=_OPENCL_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": _own_path()},
        )
        if probe.returncode == 0:
            return tuple(json.loads(probe.stdout)) or ("no device",)
    except subprocess.TimeoutExpired:
        return (f"the driver gives no answer within {_OPENCL_SECONDS:g} seconds",)
    except ValueError:
        return ("the driver's answer cannot be read",)
    if probe.returncode < 0:
        return (f"the driver crashes ({signal_name(-probe.returncode)})",)
    complaint = probe.stderr.strip().splitlines() or ["no reason given"]
    return (f"no device: {complaint[-1]}",)


def _folder(purpose: str, path: Path) -> Folder:
    size = 0
    for root, _, names in os.walk(path):
        for name in names:
            try:
                size += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                continue  # gone in the meantime
    there = path if path.exists() else next(p for p in path.parents if p.exists())
    return Folder(
        purpose=purpose,
        path=str(path),
        exists=path.exists(),
        writable=there.is_dir() and os.access(there, os.W_OK | os.X_OK),
        size=size,
        free=shutil.disk_usage(there).free,
    )


def _own_path() -> str:
    """PYTHONPATH with which another interpreter finds this package."""
    own = str(Path(config.__file__).parent.parent)
    return os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH"))))


def _versions() -> dict[str, str]:
    versions = {"edgellm": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
