"""The backends of this process: each is made when first asked for and shared by all models.

Processors belong to the process, so a team of threads for them does too: models that are loaded
apart still take turns on one team.
"""

import os
import threading
import weakref
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import cast

from edgellm.backend_kinds import ROWS, Audience, Backend, Count, DeviceBackend, Note
from edgellm.errors import RequestError


class Backends:
    """A share in the process's backends, by name. The last share to be closed closes them.

    note: is told when a backend needs a while that users should know of.
    """

    def __init__(self, note: Note) -> None:
        self._audience = Audience(note)
        self._held: dict[tuple[str, str | None], _Shared] = {}
        self._finish = weakref.finalize(self, _give_back, self._held, self._audience)

    def get(self, name: str, threads: int | None = None, device: str | None = None) -> Backend:
        """The backend of this name; RequestError when it runs with other threads already.

        device: which one, where the backend has several (see `edgellm doctor`); None is the best.
        """
        with _LOCK:
            held = self._held.get((name, device))
            shared = held or _take(name, threads, device, self._audience)
            self._held[name, device] = shared
        backend = shared.backend
        if threads is not None and backend.threads not in (None, _usable(threads)):
            raise RequestError(
                f"the {name} backend runs with {backend.threads} threads already: close its "
                "models before asking for another number",
                "threads",
            )
        return backend

    def device(self, name: str | None) -> DeviceBackend:
        """The opencl backend on the device of this name; None is the best one."""
        return cast(DeviceBackend, self.get("opencl", device=name))

    def note(self, text: str) -> None:
        """Tells users something."""
        self._audience.note(text)

    def watched(self, count: Count) -> AbstractContextManager[None]:
        """Within, count is told of each kernel that is compiled, in the thread that does it. What
        it raises ends the loading; kernels that are compiled by then are kept."""
        return self._audience.watched(count)

    def close(self) -> None:
        """Gives all back. Executables made through this share must be closed already."""
        _give_back(self._held, self._audience)


@dataclass(eq=False)
class _Shared:
    """A backend and the audiences of the Backends that hold it, who are told what it does. key: the
    process that made it, name, device."""

    key: tuple[int, str, str | None]
    backend: Backend
    holders: list[Audience]


# By process, because a forked child has none of its parent's threads.
_SHARED: dict[tuple[int, str, str | None], _Shared] = {}
_LOCK = threading.RLock()  # a Backends may be collected, and give back, while another one takes


def _take(name: str, threads: int | None, device: str | None, audience: Audience) -> _Shared:
    key = os.getpid(), name, device
    if key in _SHARED:
        _SHARED[key].holders.append(audience)
    else:
        holders = [audience]
        _SHARED[key] = _Shared(key, ROWS[name].make(threads, device, holders), holders)
    return _SHARED[key]


def _give_back(held: dict[tuple[str, str | None], _Shared], audience: Audience) -> None:
    with _LOCK:
        while held:
            _, shared = held.popitem()
            shared.holders.remove(audience)
            if not shared.holders:
                del _SHARED[shared.key]
                shared.backend.close()


def _usable(threads: int) -> int:
    from edgellm.kernels.cpu.limits import usable_threads

    return usable_threads(threads)
