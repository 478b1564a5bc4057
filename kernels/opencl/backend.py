"""What the process shares of one OpenCL device."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from edgellm.errors import BackendError, DriverFault
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.opencl.binaries import OpenStore
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.devices import describe, found, meant, memory_of, variant_of
from edgellm.kernels.opencl.executable import Executable
from edgellm.kernels.opencl.ops import lower
from edgellm.kernels.opencl.probe import check
from edgellm.kernels.opencl.self_check import checks
from edgellm.kernels.opencl.variant import Variant
from edgellm.kernels.opencl.warm_up import warming_steps
from edgellm.kernels.program import Program

Progress = Callable[[int, int], None]  # how many of how many things are done
_log = logging.getLogger("edgellm")
_LONG = 2.0  # seconds


class OpenCLBackend:
    """One device and the programs built for it.

    open_store: gives a store for the built programs of a device; None builds them each time.
    device: a number in the list of `edgellm doctor` or a part of a name; None is the best.
    variant: how kernels are cut, where the device's own choice is not wanted (tests). warms_up:
    builds and runs every kernel of a program when it is loaded, not when a step first needs it.
    on_build: is told how many of how many things are done when that takes a while; what it raises
    ends the loading.
    """

    threads = None

    def __init__(
        self,
        open_store: OpenStore | None,
        device: str | None = None,
        variant: Variant | None = None,
        warms_up: bool = True,
        on_build: Progress | None = None,
    ) -> None:
        self._warms_up = warms_up
        self._on_build = on_build
        self._open = partial(_opened, meant(device), open_store, variant)
        self._context = self._open()

    @property
    def name(self) -> str:
        """What decides the bits of results: the device, its driver, and how kernels are cut."""
        device = self._context.device
        return f"{device.name.strip()} ({device.driver_version}, {self._context.variant.name})"

    @property
    def memory(self) -> int:
        """Bytes that programs may take."""
        return memory_of(self._context.device).usable

    @property
    def at_once(self) -> int:
        """Bytes of one buffer at most."""
        return memory_of(self._context.device).at_once

    @property
    def shares_memory(self) -> bool:
        """Whether it is the processor's."""
        return memory_of(self._context.device).is_shared

    @property
    def memory_note(self) -> str:
        """How that is known."""
        return memory_of(self._context.device).note

    def load(self, program: Program, kv: KVStorage) -> Executable:
        """Copies weights to the device and builds what the program needs.

        A device that was lost since it was opened is opened again. Where the driver fails with
        what a device has beyond plain OpenCL, kernels go without.
        """
        try:
            check(self._context)
        except BackendError:
            self._context = self._open()
        while True:
            try:
                return self._load(program, kv)
            except DriverFault as error:
                plainer = _plainer(self._context)
                if plainer is None:
                    raise
                _log.warning("%s\ntrying plainer kernels", error)
            self._context = plainer  # outside, where the error holds nothing of what was loaded

    def _load(self, program: Program, kv: KVStorage) -> Executable:
        plan = lower(program, kv, self._context)
        executable = Executable(program, plan, self._context)
        if self._warms_up:
            steps = warming_steps(program, plan)
            build = [partial(self._context.kernel, key) for key in plan.kernels]
            run = [partial(executable.run, batch, given) for batch, given in steps]
            _do([*checks(self._context, program), *build, *run], self._on_build)
        return executable

    def close(self) -> None:
        """Executables hold what there is to give back."""


def report() -> list[str]:
    """A line for each device of this machine: how kernels are cut there, or why there are none."""
    lines = []
    for number, device in enumerate(found()):
        described = describe(number, device)
        try:
            cut = _opened([device], None).variant.name
            lines.append(replace(described, variant=cut).description)
        except BackendError as error:
            said = str(error).splitlines()
            reason = [line.strip() for line in said if "error:" in line][:1]
            line = replace(described, variant="no").description
            lines.append(": ".join([line, said[0], *reason]))
    return lines


def _opened(
    devices: Iterable[Any], open_store: OpenStore | None, variant: Variant | None = None
) -> Context:
    """The first device that works; BackendError of all of them, where none does."""
    errors = []
    for device in devices:
        try:
            return _opened_one(device, open_store, variant or variant_of(device))
        except BackendError as error:
            errors.append(str(error))
    raise BackendError("\n".join(errors))


def _opened_one(device: Any, open_store: OpenStore | None, variant: Variant) -> Context:
    """A device, perhaps without what it claims beyond plain OpenCL; BackendError if not even so."""
    *more, plainest = variant, *variant.fallbacks
    for cut in more:
        with suppress(BackendError):
            return _checked(Context(device, cut, open_store))
    return _checked(Context(device, plainest, open_store))


def _plainer(context: Context) -> Context | None:
    """The device with the next of its variant's fallbacks; None where that is the plainest."""
    fallbacks = context.variant.fallbacks
    if not fallbacks:
        return None
    return _checked(Context(context.device, fallbacks[0], context.open_store))


def _checked(context: Context) -> Context:
    check(context)
    return context


def _do(work: Sequence[Callable[[], object]], tell: Progress | None) -> None:
    """One after the other; how many are done is told once that takes long, as it does at first."""
    begun = time.monotonic()
    for number, do in enumerate(work):
        if tell and time.monotonic() - begun > _LONG:
            tell(number, len(work))
        do()
