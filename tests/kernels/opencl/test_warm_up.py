"""What a program needs is built when it is loaded: watched, and ended by who watches."""

import pytest

from edgellm.errors import RequestError
from edgellm.kernels.opencl import OpenCLBackend, backend as backends
from edgellm.kernels.opencl.binaries import OpenStore
from edgellm.kernels.opencl.executable import Executable
from edgellm.kernels.opencl.plan import Launch
from edgellm.kernels.opencl.self_check import checks
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.opencl.variant import VARIANTS
from edgellm.kernels.opencl.warm_up import warming_steps
from tests.kernels.cpu.programs import decoder, storage

PROGRAM = decoder(1)


@pytest.fixture(autouse=True)
def slow(backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building takes long from the first kernel on."""
    monkeypatch.setattr(backends, "_LONG", -1.0)


def test_who_loads_sees_how_far_it_is(cache: OpenStore) -> None:
    told: list[tuple[int, int]] = []
    backend = OpenCLBackend(cache, on_build=lambda *numbers: told.append(numbers))
    executable = backend.load(PROGRAM, storage(PROGRAM, 1))
    plan = executable._plan
    steps, own = list(warming_steps(PROGRAM, plan)), list(checks(backend._context, PROGRAM))
    total = len(own) + len(plan.kernels) + len(steps)
    assert told == [(done, total) for done in range(total)]


def test_who_loads_may_end_it(cache: OpenStore) -> None:
    def leave(done: int, total: int) -> None:
        if done == 2:
            raise RequestError("enough")

    backend = OpenCLBackend(cache, on_build=leave)
    with pytest.raises(RequestError, match="enough"):
        backend.load(PROGRAM, storage(PROGRAM, 1))
    assert OpenCLBackend(cache).load(PROGRAM, storage(PROGRAM, 1))


@pytest.mark.parametrize("variant", VARIANTS)
def test_small_steps_need_what_any_step_does(
    cache: OpenStore, monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    """But for a step whose tokens the device has already."""
    used_keys: list[KernelKey] = []
    find = Executable._kernel

    def used(executable: Executable, number: int, launch: Launch, key: KernelKey) -> object:
        used_keys.append(key)
        return find(executable, number, launch, key)

    monkeypatch.setattr(Executable, "_kernel", used)
    backend = OpenCLBackend(cache, variant=VARIANTS[variant])
    executable = backend.load(PROGRAM, storage(PROGRAM, 16))
    missing = set(executable._plan.kernels) - set(used_keys)
    assert {key.function for key in missing} == {"best_places"}
