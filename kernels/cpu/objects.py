"""Compiled kernels on disk, and their addresses in memory.

A warm process loads objects with llvmlite alone; only a missing one brings Numba in. The folder
holds code that this user will run: it must be a real folder of ours that nobody else can write.
A key in its name covers all sources, the versions of the compilers, and the processor.
"""

import ctypes
import hashlib
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

from llvmlite import binding

from edgellm.errors import BackendError
from edgellm.kernels.cpu.isa import host_isa

KernelKey = tuple[str, ...]  # name, then what it is specialised for
Progress = Callable[[KernelKey, int, int], None]  # about to compile key, number i of n

_SOURCES = Path(__file__).parent.parent
_log = logging.getLogger("edgellm")


def symbol(key: KernelKey) -> str:
    """The C name of a kernel."""
    return "_".join(("edgellm", *key))


@cache
def cache_key() -> str:
    """Hash of everything that the machine code depends on."""
    isa = host_isa()
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.rglob("*.py")):
        digest.update(path.relative_to(_SOURCES).as_posix().encode())
        digest.update(path.read_bytes())
    for word in (version("numba"), version("llvmlite"), sys.version, isa.cpu, isa.features):
        digest.update(word.encode())
    return digest.hexdigest()[:24]


def _is_private(folder: Path) -> bool:
    """Whether nobody but us can have put a file there."""
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode):
        return False
    if not hasattr(os, "getuid"):
        return True
    return info.st_uid == os.getuid() and not info.st_mode & 0o077


def _open_folder(root: Path) -> Path | None:
    """The folder for this key, made if need be; None when it cannot be trusted or written."""
    folder = root / "kernels" / cache_key()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if _is_private(folder):
            return folder
        _log.warning("%s is not a private folder: kernels are compiled anew each time", folder)
    except OSError as error:
        _log.warning("no kernel cache in %s (%s): kernels are compiled each time", folder, error)
    return None


def _read(path: Path) -> bytes | None:
    """The object, unless it is missing, cut short or damaged: its name ends in its own hash."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body, check = data[:-32], data[-32:]
    return body if hashlib.sha256(body).digest() == check else None


def _write(path: Path, body: bytes) -> None:
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(body + hashlib.sha256(body).digest())
        os.replace(file.name, path)
    except OSError as error:
        _log.warning("kernel cache %s cannot be written: %s", path, error)


class Library:
    """Loaded kernels by key. Keep it alive as long as their addresses are used."""

    def __init__(self, cache_root: Path | None, on_compile: Progress | None = None) -> None:
        self._folder = _open_folder(cache_root) if cache_root else None
        self._on_compile = on_compile
        self._addresses: dict[KernelKey, int] = {}
        self._engines: list[object] = []

    def load(self, keys: Iterable[KernelKey]) -> None:
        """Makes all of `keys` available, compiling what the folder does not have."""
        wanted = sorted(set(keys) - self._addresses.keys())
        found = {k: body for k in wanted if (body := self._stored(k)) is not None}
        missing = [key for key in wanted if key not in found]
        for number, key in enumerate(missing):
            if self._on_compile:
                self._on_compile(key, number, len(missing))
            found[key] = self._compile(key)
        if found:
            self._link(found)

    def address(self, key: KernelKey) -> int:
        """Where the kernel's code is."""
        return self._addresses[key]

    def _stored(self, key: KernelKey) -> bytes | None:
        return _read(self._folder / f"{symbol(key)}.o") if self._folder else None

    def _compile(self, key: KernelKey) -> bytes:
        from edgellm.kernels.cpu.compile import kernel_object
        from edgellm.kernels.cpu.ops import KERNELS

        body = kernel_object(symbol(key), KERNELS[key[0]](*key[1:]))
        if self._folder:
            _write(self._folder / f"{symbol(key)}.o", body)
        return body

    def _link(self, objects: dict[KernelKey, bytes]) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine(jit=True)
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        for body in objects.values():
            engine.add_object_file(binding.ObjectFileRef.from_data(body))
        engine.finalize_object()
        for key in objects:
            address = engine.get_function_address(symbol(key))
            if not address:
                raise BackendError(f"kernel {symbol(key)} is missing from its object file")
            self._addresses[key] = address
        self._engines.append(engine)


KERNEL_TYPE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
