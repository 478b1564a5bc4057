"""Built programs are stored and found again, and nothing that is wrong with a store does harm."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyopencl as cl
import pytest

from edgellm.kernels.cpu.private_folder import PrivateFolder
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.binaries import Binaries

TEXT = "__kernel void f(__global int *x) { x[get_global_id(0)] = NUMBER; }"
Build = Callable[..., int]


@pytest.fixture
def build(backend: OpenCLBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Builds in a new process, as it were, and says what the kernel of the program writes.

    As if the driver stored nothing, which PoCL does. driver: its version.
    """
    monkeypatch.setattr("pyopencl.characterize.has_src_build_cache", lambda device: False)
    context, device = backend._context._context, backend._context.device

    def made(number: int = 1, driver: str = "") -> int:
        names = ("platform", "name", "version", "driver_version")
        claimed = SimpleNamespace(**{name: getattr(device, name) for name in names})
        claimed.driver_version += driver
        binaries = Binaries(context, claimed, lambda key: PrivateFolder(tmp_path / key))
        binaries._device = device
        program = binaries.build(TEXT, ["-cl-std=CL1.2", f"-DNUMBER={number}"])
        return written(program)

    def written(program: cl.Program) -> int:
        room = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
        cl.Kernel(program, "f")(backend._context.queue, (1,), None, room)
        result = bytearray(4)
        cl.enqueue_copy(backend._context.queue, result, room)
        return int.from_bytes(result, "little")

    return made


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of the programs that were built from their text."""
    built = []
    make = Binaries._built

    def counted(binaries: Binaries, name: str, text: str, options: list[str]) -> cl.Program:
        built.append(text)
        return make(binaries, name, text, options)

    monkeypatch.setattr(Binaries, "_built", counted)
    return built


def stored(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_programs_are_stored_by_text_and_options(
    build: Build, sources: list[str], tmp_path: Path
) -> None:
    assert [build(3), build(3), build(4)] == [3, 3, 4]
    assert len(sources) == len(stored(tmp_path)) == 2
    assert len({path.parent for path in stored(tmp_path)}) == 1


def test_another_driver_has_a_folder_of_its_own(
    build: Build, sources: list[str], tmp_path: Path
) -> None:
    assert [build(), build(driver=" (updated)"), build()] == [1, 1, 1]
    assert len(sources) == len({path.parent for path in stored(tmp_path)}) == 2


@pytest.mark.parametrize("data", [b"", b"\x00" * 5000])
def test_a_damaged_file_is_made_anew(
    build: Build, sources: list[str], tmp_path: Path, data: bytes
) -> None:
    build()
    (file,) = stored(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(data or whole[:-7])
    assert build() == 1 and len(sources) == 2
    assert build() == 1 and len(sources) == 2


def test_what_the_driver_refuses_is_made_anew(
    build: Build, sources: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an update that kept the version."""
    build()
    make = cl.Program.__init__

    def refuse(program: cl.Program, *given: object) -> None:
        if len(given) == 3:
            raise cl.LogicError("clCreateProgramWithBinary failed: INVALID_BINARY")
        make(program, *given)

    monkeypatch.setattr(cl.Program, "__init__", refuse)
    assert build() == 1 and len(sources) == 2


def test_a_full_disk(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(folder: PrivateFolder, name: str, data: bytes) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(PrivateFolder, "write", fail)
    assert build() == 1
    assert "cannot be stored (no space left on device)" in caplog.text


def test_drivers_that_store_programs_are_given_no_folder(
    backend: OpenCLBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyopencl.characterize.has_src_build_cache", lambda device: True)
    context = backend._context
    binaries = Binaries(context._context, context.device, lambda k: PrivateFolder(tmp_path / k))
    binaries.build(TEXT, ["-DNUMBER=1"])
    assert not stored(tmp_path)


LOADS = """
import sys
from pathlib import Path
from edgellm.kernels.cpu.private_folder import PrivateFolder
from pyopencl import characterize
characterize.has_src_build_cache = lambda device: False
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.sources import KernelKey
backend = OpenCLBackend(lambda key: PrivateFolder(Path(sys.argv[1]) / key))
for size in (32, 64, 128):
    names = ("SIZE", size), ("FACTOR", "1.0f")
    backend._context.kernel(KernelKey("hadamard", "hadamard", definitions=names))
"""


def test_processes_that_write_at_once(opencl: None, tmp_path: Path) -> None:
    run = [sys.executable, "-c", LOADS, str(tmp_path)]
    both = [subprocess.Popen(run, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=120)[1] for process in both] == ["", ""]
    assert [process.returncode for process in both] == [0, 0]
    names = [path.name for path in stored(tmp_path)]
    assert len(names) > 3 and not any(name.startswith(".") for name in names)
