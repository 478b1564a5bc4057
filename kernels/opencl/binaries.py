"""Built programs, stored by device, driver and text, where the driver does not do so itself.

Not pyopencl's store: a process that is killed leaves its lock there, which later ones wait for a
minute at each program, and a damaged file stays. Knows nothing of kernels.
"""

import logging
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Protocol

import pyopencl as cl
from pyopencl import characterize

from edgellm.kernels.seals import sealed, unsealed

_log = logging.getLogger("edgellm")


class Store(Protocol):
    """Files by name that this user alone can have written, each there as a whole or not at all."""

    def read(self, name: str) -> bytes | None: ...

    def write(self, name: str, data: bytes) -> None: ...


OpenStore = Callable[[str], Store | None]  # takes a key of 24 hexadecimal digits


class Binaries:
    """Builds for one device of a context. open_store: gives the store of a device and driver."""

    def __init__(self, context: Any, device: Any, open_store: OpenStore | None) -> None:
        self._context, self._device = context, device
        platform = device.platform
        names = platform.name, platform.version, device.name, device.version, device.driver_version
        self._store: Store | None = None
        if open_store and not characterize.has_src_build_cache(device):
            self._store = open_store(sha256(repr(names).encode()).hexdigest()[:24])

    def build(self, text: str, options: Sequence[str]) -> Any:
        """The program of a text; cl.Error where the driver cannot build it."""
        name = sha256(repr((text, *options)).encode()).hexdigest()
        return self._stored(name, options) or self._built(name, text, options)

    def _stored(self, name: str, options: Sequence[str]) -> Any | None:
        """None where there is none, or none that is whole and that the driver takes."""
        binary = unsealed(name, self._store.read(name)) if self._store else None
        if binary is None:
            return None
        with suppress(cl.Error):
            program = cl.Program(self._context, [self._device], [binary])
            return _build(program, options)
        return None

    def _built(self, name: str, text: str, options: Sequence[str]) -> Any:
        program = cl.Program(self._context, text)
        with warnings.catch_warnings():  # being asked for anything keeps pyopencl from storing it
            warnings.simplefilter("ignore")
            program.get_info(cl.program_info.REFERENCE_COUNT)
        _build(program, options)
        if self._store is not None:
            (binary,) = program.get_info(cl.program_info.BINARIES)
            try:
                self._store.write(name, sealed(name, binary))
            except OSError as error:
                _log.warning("built kernels cannot be stored (%s): they are built anew", error)
                self._store = None
        return program


def _build(program: Any, options: Sequence[str]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return program.build(list(options))
