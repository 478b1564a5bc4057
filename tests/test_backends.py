"""Backends by name: made once, shared, and clear about what they cannot do."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgellm import backend_kinds as kinds, backends
from edgellm.backend_kinds import Audience, Row, backend_name
from edgellm.backends import Backends
from edgellm.errors import BackendError, RequestError
from edgellm.kernels.cpu import limits
from edgellm.kernels.cpu.private_folder import PrivateFolder


class Fake:
    def __init__(self, threads: int | None) -> None:
        self.threads = threads or 1
        self.closed = 0

    def load(self, program: object, kv: object) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> list[Fake]:
    """All backends called "fake" that were made, on a machine with 8 processors."""
    made: list[Fake] = []

    def make(threads: int | None, device: str | None, audiences: object) -> Fake:
        made.append(Fake(threads))
        return made[-1]

    monkeypatch.setattr(backends, "ROWS", {"fake": Row(make, "f16")})  # type: ignore[arg-type]
    monkeypatch.setattr(limits, "usable_threads", lambda wanted: min(wanted, 8))
    return made


def test_names() -> None:
    assert backend_name("auto") == "cpu"
    assert backend_name("reference") == "reference"
    assert backend_name("opencl") == "opencl"
    with pytest.raises(RequestError, match="expected one of auto, cpu, opencl, reference") as found:
        backend_name("abacus")
    assert found.value.field == "backend"


def test_without_a_library_for_opencl(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pyopencl, or one that finds no loader of drivers: its import fails."""
    for name in ("edgellm.kernels.opencl", "edgellm.kernels.opencl.devices"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(kinds, "_may_have_drivers", lambda: True)
    assert backend_name("auto") == "cpu" and kinds.gpu_memory() is None
    with pytest.raises(BackendError, match="needs pyopencl .*pip install .*or use --backend cpu"):
        Backends(print).get("opencl")
    with pytest.raises(BackendError, match="needs pyopencl"):
        kinds.gpu_memory("0")


def test_who_loads_is_told_of_each_kernel_and_may_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Callable[[tuple[str, ...], int, int], None]] = []

    def backend(cache: object, threads: object, on_compile: Any) -> Fake:
        made.append(on_compile)
        return Fake(None)

    monkeypatch.setattr("edgellm.kernels.cpu.CpuBackend", backend)
    notes: list[str] = []
    told: list[tuple[str, int, int]] = []
    listeners = [Audience(notes.append), Audience(print)]
    kinds._make_cpu(None, None, listeners)
    (on_compile,) = made
    on_compile(("kernel",), 0, 3)
    with listeners[1].watched(lambda what, done, total: told.append((what, done, total))):
        on_compile(("kernel",), 1, 3)
    on_compile(("kernel",), 2, 3)
    assert told == [("compiling kernels", 1, 3)] and len(notes) == 1

    def leave(what: str, done: int, total: int) -> None:
        raise RequestError("enough")

    with pytest.raises(RequestError, match="enough"), listeners[0].watched(leave):
        on_compile(("kernel",), 1, 3)
    on_compile(("kernel",), 2, 3)


def test_programs_of_devices_lie_where_nobody_else_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opencl = pytest.importorskip("edgellm.kernels.opencl")
    made: list[Callable[[str], PrivateFolder | None]] = []
    monkeypatch.setattr(opencl, "OpenCLBackend", lambda store, *_, **__: made.append(store))
    monkeypatch.setattr(kinds, "cache_dir", lambda: tmp_path)
    notes: list[str] = []
    kinds._make_opencl(None, None, [Audience(notes.append)])
    (open_store,) = made
    own, open_to_others = "a" * 24, "b" * 24
    found = open_store(own)
    assert found is not None and not notes
    found.write("program", b"binary")
    assert (tmp_path / "opencl" / own / "program").read_bytes() == b"binary"
    (tmp_path / "opencl" / open_to_others).mkdir(mode=0o777)
    (tmp_path / "opencl" / open_to_others).chmod(0o777)
    assert open_store(open_to_others) is None
    assert "built anew each time" in notes[0] and "open to others" in notes[0]


def test_all_who_hold_a_backend_hear_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    heard_by: list[kinds.Audiences] = []

    def make(threads: int | None, device: str | None, audiences: kinds.Audiences) -> Fake:
        heard_by.append(audiences)
        return Fake(threads)

    monkeypatch.setattr(backends, "ROWS", {"fake": Row(make, "f16")})  # type: ignore[arg-type]
    one, other = Backends(print), Backends(print)
    one.get("fake")
    other.get("fake")
    other.get("fake")
    told: list[int] = []
    (audiences,) = heard_by
    with other.watched(lambda what, done, total: told.append(done)):
        for audience in audiences:
            audience.count("kernels", 1, 2)
    assert told == [1] and len(audiences) == 2
    one.close()
    assert len(audiences) == 1
    other.close()


def test_one_of_each_is_made_and_closed_with_its_last_holder(fakes: list[Fake]) -> None:
    one, other = Backends(print), Backends(print)
    assert one.get("fake") is one.get("fake") is other.get("fake")
    one.close()
    one.close()
    assert [fake.closed for fake in fakes] == [0]
    other.close()
    assert [fake.closed for fake in fakes] == [1]
    again = Backends(print)
    made: object = again.get("fake")
    assert made is fakes[1]
    again.close()


def test_a_holder_that_is_forgotten_gives_back(fakes: list[Fake]) -> None:
    Backends(print).get("fake")
    gc.collect()
    assert [fake.closed for fake in fakes] == [1]


def test_a_team_of_threads_does_not_change_its_size(fakes: list[Fake]) -> None:
    made, other = Backends(print), Backends(print)
    try:
        made.get("fake", 8)
        assert made.get("fake") is made.get("fake", 8) is other.get("fake", 99)
        for asker in (made, other):
            with pytest.raises(RequestError, match="8 threads already") as found:
                asker.get("fake", 3)
            assert found.value.field == "threads"
    finally:
        made.close()
        other.close()
    assert [fake.closed for fake in fakes] == [1]


def test_the_reference_has_no_threads() -> None:
    made = Backends(print)
    made.get("reference", 1)
    made.get("reference", 2)
    made.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_makes_its_own() -> None:
    program = """
import os
from edgellm.backends import Backends
mine = Backends(print)
first = mine.get("cpu")
child = os.fork()
if child == 0:
    own = Backends(print)
    fresh = own.get("cpu") is not first
    mine.close()
    kept = own.get("cpu") is Backends(print).get("cpu")
    own.close()
    os._exit(0 if fresh and kept else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
