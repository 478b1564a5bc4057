"""What the process shares of one OpenCL device."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from edgellm.kernels.kv import KVStorage
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.devices import choose, memory_of, variant_of
from edgellm.kernels.opencl.executable import Executable
from edgellm.kernels.opencl.ops import lower
from edgellm.kernels.opencl.variant import Variant
from edgellm.kernels.opencl.warm_up import warming_steps
from edgellm.kernels.program import Program

Progress = Callable[[int, int], None]  # how many of how many things are done
_LONG = 2.0  # seconds


class OpenCLBackend:
    """One device and the programs built for it.

    device: a number in the list of `edgellm doctor` or a part of a name; None is the best. cache: a
    folder of this user alone for built programs. variant: how kernels are cut, where the device's
    own choice is not wanted (tests). warms_up: builds and runs every kernel of a program when it
    is loaded, not when a step first needs it. on_build: is told how many of how many things are
    done when that takes a while; what it raises ends the loading.
    """

    threads = None

    def __init__(
        self,
        cache: Path | None,
        device: str | None = None,
        variant: Variant | None = None,
        warms_up: bool = True,
        on_build: Progress | None = None,
    ) -> None:
        chosen: Any = choose(device)
        self._warms_up = warms_up
        self._on_build = on_build
        self._context = Context(chosen, variant or variant_of(chosen), cache)
        if not self._context.compiles():  # said to be there, but not for this compiler
            self._context = Context(chosen, self._context.variant.plain, cache)

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
    def memory_note(self) -> str:
        """How that is known."""
        return memory_of(self._context.device).note

    def load(self, program: Program, kv: KVStorage) -> Executable:
        """Copies weights to the device and builds what the program needs."""
        plan = lower(program, kv, self._context)
        executable = Executable(program, plan, self._context)
        if self._warms_up:
            steps = warming_steps(program, plan)
            build = [partial(self._context.kernel, key) for key in plan.kernels]
            run = [partial(executable.run, batch, given) for batch, given in steps]
            _do([*build, *run], self._on_build)
        return executable

    def close(self) -> None:
        """Executables hold what there is to give back."""


def _do(work: Sequence[Callable[[], object]], tell: Progress | None) -> None:
    """One after the other; how many are done is told once that takes long, as it does at first."""
    begun = time.monotonic()
    for number, do in enumerate(work):
        if tell and time.monotonic() - begun > _LONG:
            tell(number, len(work))
        do()
