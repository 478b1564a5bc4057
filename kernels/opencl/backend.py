"""What the process shares of one OpenCL device."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from edgellm.kernels.kv import KVStorage
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.devices import choose, memory_of, variant_of
from edgellm.kernels.opencl.executable import Executable
from edgellm.kernels.opencl.ops import lower
from edgellm.kernels.opencl.variant import Variant
from edgellm.kernels.program import Program


class OpenCLBackend:
    """One device and the programs built for it.

    device: a number in the list of `edgellm doctor` or a part of a name; None is the best. cache: a
    folder of this user alone for built programs. variant: how kernels are cut, where the device's
    own choice is not wanted (tests). warms_up: builds and runs every kernel of a program when it
    is loaded, not when a step first needs it.
    """

    threads = None

    def __init__(
        self,
        cache: Path | None,
        device: str | None = None,
        variant: Variant | None = None,
        warms_up: bool = True,
    ) -> None:
        chosen: Any = choose(device)
        self._warms_up = warms_up
        self._context = Context(chosen, variant or variant_of(chosen), cache)
        if not self._context.can_dot4():  # said to be there, but not for this compiler
            plain = replace(self._context.variant, name="gpu", dot4="none")
            self._context = Context(chosen, plain, cache)

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
        executable = Executable(program, lower(program, kv, self._context), self._context)
        if self._warms_up:
            executable.warm_up()
        return executable

    def close(self) -> None:
        """Executables hold what there is to give back."""
