"""The kinds of backends: how each is made, and which of them is meant on this machine.

Knows nothing of what they do, or of who shares them.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgellm.config import cache_dir
from edgellm.errors import BackendError, RequestError
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import Program
from edgellm.memory import GPUMemory
from edgellm.mixed import Continuation
from edgellm.model_runner import Executable
from edgellm.old_folders import mark_used

Note = Callable[[str], None]  # takes a line that the user should see
Count = Callable[[str, int, int], None]  # things that are counted, how many are done, and in all
Audiences = Sequence["Audience"]


class Backend(Protocol):
    """Turns programs into something that runs. threads: None where they are not its matter."""

    @property
    def threads(self) -> int | None: ...

    def load(self, program: Program, kv: KVStorage) -> Executable: ...

    def close(self) -> None: ...


class DeviceBackend(Backend, Protocol):
    """A backend on a device with memory of its own. name: what decides the bits of its results.

    memory: bytes that programs may take, at_once: in one buffer; memory_note: how that is known,
    for users. shares_memory: it is the processor's.
    """

    @property
    def name(self) -> str: ...

    @property
    def memory(self) -> int: ...

    @property
    def at_once(self) -> int: ...

    @property
    def memory_note(self) -> str: ...

    @property
    def shares_memory(self) -> bool: ...

    def load(self, program: Program, kv: KVStorage) -> Continuation: ...


class Audience:
    """Who wants to know what a backend does meanwhile. note: takes lines for users."""

    def __init__(self, note: Note) -> None:
        self.note = note
        self._counts: list[Count] = []

    @contextmanager
    def watched(self, count: Count) -> Iterator[None]:
        """Within, count is told, too."""
        self._counts.append(count)
        try:
            yield
        finally:
            self._counts.remove(count)

    def count(self, what: str, done: int, total: int) -> None:
        """Tells all who watch. What one of them raises ends what is counted."""
        for count in tuple(self._counts):
            count(what, done, total)


class _Reference:
    """The numpy backend is a module and holds nothing."""

    threads = None

    def load(self, program: Program, kv: KVStorage) -> Executable:
        from edgellm.kernels import reference

        return reference.load(program, kv)

    def close(self) -> None:
        pass


def _make_reference(threads: int | None, device: str | None, audiences: Audiences) -> Backend:
    return _Reference()


def _make_cpu(threads: int | None, device: str | None, audiences: Audiences) -> Backend:
    from edgellm.kernels.cpu import CpuBackend
    from edgellm.kernels.cpu.objects import cache_key

    told = _compiling(audiences, "compiling kernels for this processor; this is done once")

    def tell(key: tuple[str, ...], number: int, total: int) -> None:
        told(number, total)

    backend = CpuBackend(cache_dir(), threads, tell)
    mark_used(cache_dir() / "kernels" / cache_key())
    return backend


def _make_opencl(threads: int | None, device: str | None, audiences: Audiences) -> Backend:
    from edgellm.kernels.cpu.private_folder import PrivateFolder

    try:
        from edgellm.kernels.opencl import OpenCLBackend
    except ImportError as error:
        raise BackendError(_NO_PYOPENCL.format(error)) from None

    def open_store(key: str) -> PrivateFolder | None:
        """Its folder; None when others could put programs there for us to run."""
        folder = cache_dir() / "opencl" / key
        try:
            store = PrivateFolder(folder)
        except OSError as error:
            audiences[0].note(f"kernels are built anew each time: {error}")
            return None
        mark_used(folder)
        return store

    note = "the driver makes kernels for this device, which takes longest the first time"
    return OpenCLBackend(open_store, device, on_build=_compiling(audiences, note))


def _compiling(audiences: Audiences, note: str) -> Callable[[int, int], None]:
    """What takes how many kernels are made, and of how many, and tells all who listen then; the
    note once."""
    is_told = False

    def tell(done: int, total: int) -> None:
        nonlocal is_told
        if not is_told:
            audiences[0].note(note)
        is_told = True
        for audience in tuple(audiences):
            audience.count("compiling kernels", done, total)

    return tell


@dataclass(frozen=True)
class Row:
    """make: builds the backend from threads, device and who listens to it, now and later.
    kv_cache_type: what keys and values are stored in unless told."""

    make: Callable[[int | None, str | None, Audiences], Backend]
    kv_cache_type: str


ROWS: Mapping[str, Row] = {
    "cpu": Row(_make_cpu, "f16"),
    "opencl": Row(_make_opencl, "f16"),
    "reference": Row(_make_reference, "f32"),
}
_NO_PYOPENCL = (
    "the opencl backend needs pyopencl ({}): pip install 'edgellm[opencl]', or use --backend cpu"
)
_DRIVERS = Path("/etc/OpenCL/vendors")


def backend_name(wanted: str) -> str:
    """The name of the backend meant; "auto" is the best there is for this machine."""
    name = _best() if wanted == "auto" else wanted
    if name not in ROWS:
        known = ", ".join(("auto", *ROWS))
        raise RequestError(f"backend is {wanted!r}: expected one of {known}", "backend")
    return name


def _best() -> str:
    """opencl where there is a GPU, else cpu. Drivers are only asked where some are installed."""
    if importlib.util.find_spec("pyopencl") is None or not _may_have_drivers():
        return "cpu"
    try:
        from edgellm.kernels.opencl.devices import has_gpu

        return "opencl" if has_gpu() else "cpu"
    except Exception:  # a broken driver or library; `edgellm doctor` says what is wrong
        return "cpu"


def gpu_memory(device: str | None = None) -> tuple[str, GPUMemory] | None:
    """Name and memory of the device that `load` would take: the one asked for, or a GPU.

    None where there is no GPU and none is asked for; BackendError, RequestError for one not there.
    """
    if device is None and _best() != "opencl":
        return None
    try:
        from edgellm.kernels.opencl.devices import meant, memory_of
    except ImportError as error:
        raise BackendError(_NO_PYOPENCL.format(error)) from None
    found = meant(device)[0]
    memory = memory_of(found)
    return found.name.strip(), GPUMemory(memory.usable, memory.at_once, memory.is_shared)


def _may_have_drivers() -> bool:
    """False where the system lists no driver. PoCL from the package index is not in that list."""
    return sys.platform != "linux" or any(_DRIVERS.glob("*.icd"))
