"""The store of compiled kernels: what is trusted, what is compiled again, what is refused."""

import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.errors import BackendError
from edgellm.kernels.cpu import CpuBackend, compile as compiler, objects, private_folder
from edgellm.kernels.cpu.objects import KernelKey, Library, cache_key, symbol
from edgellm.kernels.cpu.ops import KERNELS, float_matmul
from edgellm.kernels.cpu.ops.common import inline
from edgellm.kernels.cpu.simd import pointer
from tests.kernels.cpu.programs import decoder, storage
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
ADD, MULTIPLY = ("add",), ("multiply",)
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="no owners or modes here")


@pytest.fixture(scope="module")
def bodies() -> dict[str, bytes]:
    """Two small kernels, compiled once."""
    return {
        symbol(key): compiler.kernel_object(symbol(key), KERNELS[key[0]]())
        for key in (ADD, MULTIPLY)
    }


@pytest.fixture
def compiled(bodies: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were compiled, without the time that takes."""
    names: list[str] = []

    def compile_quickly(name: str, kernel: Callable[..., None]) -> bytes:
        names.append(name)
        return bodies[name]

    monkeypatch.setattr(compiler, "kernel_object", compile_quickly)
    return names


def folder_of(root: Path) -> Path:
    return root / "kernels" / cache_key()


def add_one(library: Library) -> None:
    """Runs the add kernel."""
    a, b, total = (np.full(16, n, np.float32) for n in (1, 2, 0))
    args = np.array([0, a.ctypes.data, b.ctypes.data, total.ctypes.data, 16], np.int64)
    step = np.ones(16, np.int64)
    objects.KERNEL_TYPE(library.address(ADD))(args.ctypes.data, step.ctypes.data, 0, 1)
    np.testing.assert_array_equal(total, 3)


def test_a_stored_kernel_is_not_compiled_again(tmp_path: Path, compiled: list[str]) -> None:
    for _ in range(2):
        library = Library(tmp_path)
        library.load([ADD, ADD])
        library.load([ADD])
        add_one(library)
    assert compiled == [symbol(ADD)]


def test_progress_is_told(tmp_path: Path, compiled: list[str]) -> None:
    told: list[tuple[KernelKey, int, int]] = []
    Library(tmp_path, lambda *args: told.append(args)).load([MULTIPLY, ADD])
    assert told == [(ADD, 0, 2), (MULTIPLY, 1, 2)]


def test_a_warm_process_imports_no_compiler(backend: CpuBackend) -> None:
    program = decoder(1)
    backend.load(program, storage(program, 1))
    code = """
import sys
import numpy as np
from edgellm.config import cache_dir
from edgellm.kernels.cpu import CpuBackend
from edgellm.kernels.cpu.image import CAN_FLATTEN
from tests.kernels.cpu.programs import *
backend = CpuBackend(cache_dir())
program = decoder(1)
(stream,) = streams(np.random.default_rng(0), 1, 4, 1)
logits = backend.load(program, storage(program, 1)).run(pack([(stream, 4)], [3]))["logits"]
assert np.isfinite(logits).all() and np.abs(logits).max() > 0
compilers = {"numba", "gguf", "edgellm.kernels.cpu.compile"}
compilers |= {"llvmlite"} if CAN_FLATTEN else set()
print(sorted(compilers & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_objects_are_linked_where_there_are_no_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "CAN_FLATTEN", False)
    for _ in ("compiled", "stored"):
        library = Library(tmp_path)
        library.load([ADD])
        add_one(library)


# ---------------------------------------------------------------- damage


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [flip, lambda data: data[:-1], lambda data: data[:31], lambda data: b"", lambda data: data * 2],
    ids=["a flipped bit", "one byte short", "no checksum", "empty", "twice"],
)
def test_a_damaged_object_is_compiled_again(
    tmp_path: Path, compiled: list[str], damage: Callable[[bytes], bytes]
) -> None:
    Library(tmp_path).load([ADD])
    file = folder_of(tmp_path) / f"{symbol(ADD)}.code"
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    library = Library(tmp_path)
    library.load([ADD])
    add_one(library)
    assert compiled == [symbol(ADD)] * 2
    assert file.read_bytes() == whole


def test_an_object_under_another_name_is_not_taken(tmp_path: Path, compiled: list[str]) -> None:
    Library(tmp_path).load([ADD, MULTIPLY])
    names = [folder_of(tmp_path) / f"{symbol(key)}.code" for key in (ADD, MULTIPLY)]
    shutil.copy(names[1], names[0])
    library = Library(tmp_path)
    library.load([ADD])
    add_one(library)
    assert compiled.count(symbol(ADD)) == 2


@pytest.mark.parametrize("interrupted", ["write", "rename"])
def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    if interrupted == "rename":
        monkeypatch.setattr(os, "replace", interrupt)
    else:
        real = os.open

        def open_and_interrupt(path: str, flags: int, *rest: int, **kwargs: int) -> int:
            descriptor = real(path, flags, *rest, **kwargs)
            if flags & os.O_CREAT:
                os.close(descriptor)
                interrupt()
            return descriptor

        monkeypatch.setattr(os, "open", open_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        Library(tmp_path).load([ADD])
    assert list(folder_of(tmp_path).iterdir()) == []


def test_threads_that_share_a_library_compile_once(tmp_path: Path, compiled: list[str]) -> None:
    library = Library(tmp_path)
    threads = [threading.Thread(target=library.load, args=([ADD, MULTIPLY],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(compiled) == [symbol(ADD), symbol(MULTIPLY)]
    add_one(library)


# ---------------------------------------------------------------- whose folder it is


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    caplog.set_level(logging.WARNING, "edgellm")
    yield lambda: [record.getMessage() for record in caplog.records]


def assert_not_used(
    root: Path, compiled: list[str], warnings: Callable[[], list[str]], why: str
) -> None:
    for _ in range(2):
        library = Library(root)
        library.load([ADD])
        add_one(library)
    assert compiled == [symbol(ADD)] * 2
    assert len(warnings()) == 2 and all(why in line for line in warnings())


@POSIX
def test_what_is_made_is_private_whatever_the_umask(tmp_path: Path, compiled: list[str]) -> None:
    before = os.umask(0)
    try:
        Library(tmp_path / "a" / "b").load([ADD])
    finally:
        os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert len(made) == 4 and all(path.stat().st_mode & 0o777 == 0o700 for path in made)
    (file,) = folder_of(tmp_path / "a" / "b").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@POSIX
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o755])
def test_a_folder_open_to_others_is_not_used(
    tmp_path: Path, compiled: list[str], warnings: Callable[[], list[str]], mode: int
) -> None:
    folder_of(tmp_path).mkdir(parents=True)
    folder_of(tmp_path).chmod(mode)
    assert_not_used(tmp_path, compiled, warnings, "open to others")
    assert list(folder_of(tmp_path).iterdir()) == []


@POSIX
def test_the_folder_of_somebody_else_is_not_used(
    tmp_path: Path,
    compiled: list[str],
    warnings: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    somebody_else = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody_else)
    assert_not_used(tmp_path, compiled, warnings, "belongs to user")


@POSIX
def test_a_link_is_not_followed(
    tmp_path: Path, compiled: list[str], warnings: Callable[[], list[str]]
) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder_of(tmp_path).parent.mkdir()
    folder_of(tmp_path).symlink_to(tmp_path / "elsewhere")
    assert_not_used(tmp_path, compiled, warnings, "no kernel cache")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@POSIX
def test_a_folder_put_in_its_place_later_is_not_used(tmp_path: Path, compiled: list[str]) -> None:
    Library(tmp_path).load([ADD])
    library = Library(tmp_path)
    folder_of(tmp_path).rename(tmp_path / "moved")
    folder_of(tmp_path).mkdir()
    (folder_of(tmp_path) / f"{symbol(ADD)}.code").write_bytes(b"evil")
    library.load([ADD, MULTIPLY])
    assert compiled == [symbol(ADD), symbol(MULTIPLY)]
    assert len(list((tmp_path / "moved").iterdir())) == 2


def test_a_system_that_cannot_hold_folders_open(
    tmp_path: Path,
    compiled: list[str],
    warnings: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(private_folder, "_HOLDS_FOLDERS", False)
    for _ in range(2):
        Library(tmp_path / "real").load([ADD])
    assert compiled == [symbol(ADD)]
    folder_of(tmp_path / "link").parent.mkdir(parents=True)
    folder_of(tmp_path / "link").symlink_to(folder_of(tmp_path / "real"))
    Library(tmp_path / "link").load([ADD])
    assert compiled == [symbol(ADD)] * 2 and "is a link" in warnings()[0]


def test_a_file_where_the_folder_should_be(
    tmp_path: Path, compiled: list[str], warnings: Callable[[], list[str]]
) -> None:
    (tmp_path / "kernels").write_text("")
    assert_not_used(tmp_path, compiled, warnings, "no kernel cache")


def test_a_cache_that_cannot_be_written_is_said_once(
    tmp_path: Path,
    compiled: list[str],
    warnings: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    library = Library(tmp_path)
    library.load([ADD, MULTIPLY])
    add_one(library)
    (line,) = warnings()
    assert "No space left" in line
    assert list(folder_of(tmp_path).iterdir()) == []


def test_no_cache_at_all(compiled: list[str]) -> None:
    library = Library(None)
    library.load([ADD])
    add_one(library)
    assert compiled == [symbol(ADD)]


# ---------------------------------------------------------------- the key


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[Path]:
    """A copy of the kernel sources that a test may change."""
    copy = tmp_path / "copy"
    shutil.copytree(objects._ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    cache_key.cache_clear()
    yield copy
    cache_key.cache_clear()


@pytest.mark.parametrize(
    "name", ["cpu/simd.py", "cpu/ops/attention.py", "formats/legacy.py", "kv.py", "program.py"]
)
def test_a_changed_source_changes_the_key(sources: Path, name: str) -> None:
    assert cache_key(sources) == cache_key()
    cache_key.cache_clear()
    with (sources / name).open("a") as file:
        file.write("\n")
    assert cache_key(sources) != cache_key()


def test_a_new_source_changes_the_key(sources: Path) -> None:
    (sources / "cpu" / "ops" / "empty.py").touch()
    assert cache_key(sources) != cache_key()


def test_what_no_kernel_is_made_from_does_not_count(sources: Path) -> None:
    shutil.rmtree(sources / "reference")
    (sources / "opencl" / "new.py").write_text("x = 1\n")
    assert cache_key(sources) == cache_key()


@pytest.mark.parametrize("package", ["numba", "llvmlite", "gguf"])
def test_another_version_changes_the_key(
    sources: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    before = cache_key()
    cache_key.cache_clear()
    read = objects._package_file
    monkeypatch.setattr(
        objects, "_package_file", lambda name, file: read(name, file) + b"x" * (name == package)
    )
    assert cache_key() != before


# ---------------------------------------------------------------- kernels that are refused


def raising(args: Any, step: Any, thread: Any, threads: Any) -> None:
    """A kernel that raises."""
    if threads == 3:
        raise ValueError("three")


def printing(args: Any, step: Any, thread: Any, threads: Any) -> None:
    """A kernel that calls Python."""
    print(thread)


@pytest.mark.parametrize("kernel", [raising, printing])
def test_kernels_that_need_python_are_refused(kernel: Callable[..., None]) -> None:
    with pytest.raises(BackendError, match="kernel bad"):
        compiler.kernel_object("bad", kernel)


# ---------------------------------------------------------------- the check of new kernels


def test_a_product_that_is_wrong_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    make = float_matmul.make_float_matmul

    def make_wrong(type_id: str) -> Callable[..., None]:
        right = inline(make(type_id))

        def wrong(args: Any, step: Any, thread: Any, threads: Any) -> None:
            right(args, step, thread, threads)
            pointer(args[3], np.float32)[0] = np.float32(0.0)

        return wrong

    monkeypatch.setitem(KERNELS, "float_matmul", make_wrong)
    library = Library(tmp_path)
    key = ("float_matmul", "0")
    with pytest.raises(BackendError, match="edgellm_float_matmul_0 is wrong by"):
        library.load([key])
    assert "cannot be used" in warnings()[0]
    assert list(folder_of(tmp_path).iterdir()) == []
    with pytest.raises(KeyError):
        library.address(key)
