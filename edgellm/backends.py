"""The backends of this process: each is made when first asked for and shared by all models.

Knows how to make each one and nothing of what it does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from edgellm.config import cache_dir
from edgellm.errors import BackendError, RequestError
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.ops import Program
from edgellm.model_runner import Executable

Note = Callable[[str], None]  # takes a line that the user should see


class Backend(Protocol):
    """Turns programs into something that runs."""

    def load(self, program: Program, kv: KVStorage) -> Executable: ...

    def close(self) -> None: ...


class Backends:
    """Makes backends by name and keeps them.

    note: is told when a backend needs a while that users should know of.
    """

    def __init__(self, note: Note) -> None:
        self._note = note
        self._made: dict[str, tuple[Backend, int | None]] = {}

    def get(self, name: str, threads: int | None = None) -> Backend:
        """The backend of this name; RequestError when it runs with other threads already."""
        made, running = self._made.get(name, (None, threads))
        if made is None:
            made = ROWS[name].make(threads, self._note)
            self._made[name] = made, threads
        if threads not in (None, running):
            had = "its own choice of threads" if running is None else f"{running} threads"
            raise RequestError(
                f"the {name} backend runs with {had} already: load the first model with "
                f"threads={threads}",
                "threads",
            )
        return made

    def close(self) -> None:
        """Closes all. Their executables must be closed already."""
        while self._made:
            self._made.popitem()[1][0].close()


class _Reference:
    """The numpy backend is a module and holds nothing."""

    def load(self, program: Program, kv: KVStorage) -> Executable:
        from edgellm.kernels import reference

        return reference.load(program, kv)

    def close(self) -> None:
        pass


def _make_reference(threads: int | None, note: Note) -> Backend:
    return _Reference()


def _make_cpu(threads: int | None, note: Note) -> Backend:
    from edgellm.kernels.cpu import CpuBackend

    def tell(key: tuple[str, ...], number: int, total: int) -> None:
        if number == 0:
            note(f"compiling {total} kernels for this processor; this is done once")

    return CpuBackend(cache_dir(), threads, tell)


@dataclass(frozen=True)
class Row:
    """make: builds the backend. kv_cache_type: what keys and values are stored in unless told."""

    make: Callable[[int | None, Note], Backend]
    kv_cache_type: str


ROWS: Mapping[str, Row] = {
    "cpu": Row(_make_cpu, "f16"),
    "reference": Row(_make_reference, "f32"),
}
_AUTO = "cpu"


def backend_name(wanted: str) -> str:
    """The name of the backend meant; "auto" is the best there is for this machine."""
    if wanted == "opencl":
        raise BackendError("the opencl backend is not there yet: use cpu")
    name = _AUTO if wanted == "auto" else wanted
    if name not in ROWS:
        known = ", ".join(("auto", *ROWS))
        raise RequestError(f"backend is {wanted!r}: expected one of {known}", "backend")
    return name
