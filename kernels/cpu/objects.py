"""Compiled kernels on disk, and their addresses in memory.

A warm process maps images into memory; only a missing one brings in the compilers. Where there are
no images, objects are stored as they are and llvmlite links them. The folder holds code that this
user will run, so it is a private one. Its name is a key of all sources, the versions of the
compilers, and the processor.
"""

import ctypes
import hashlib
import logging
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from edgellm.errors import BackendError
from edgellm.kernels.cpu.image import CAN_FLATTEN, Image, Mapping, flatten
from edgellm.kernels.cpu.isa import target_identity
from edgellm.kernels.cpu.limits import usable_threads
from edgellm.kernels.cpu.private_folder import PrivateFolder
from edgellm.kernels.seals import sealed, unsealed

KernelKey = tuple[str, ...]  # name, then what it is specialised for
Progress = Callable[[KernelKey, int, int], None]  # number i of n is next, this key or another

KERNEL_TYPE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)

_ROOT = Path(__file__).parent.parent
# What machine code is made from. Packages: the compilers, and where formats take their grids, with
# the file that tells one version from another. Asking importlib.metadata takes 2 MB and 10 ms.
_SOURCES = (
    "cpu/*.py",
    "cpu/ops/**/*.py",
    "cpu/strips/**/*.py",
    "formats/**/*.py",
    "draw.py",
    "kv.py",
    "program.py",
)
# Of those, what only writes formats.
_WRITERS = ("formats/*_write.py", "formats/rounding.py", "formats/search.py")
_PACKAGES = {"numba": "_version.py", "llvmlite": "_version.py", "gguf": "quants.py"}
_log = logging.getLogger("edgellm")


def symbol(key: KernelKey) -> str:
    """The C name of a kernel."""
    return "_".join(("edgellm", *key))


@cache
def cache_key(root: Path = _ROOT) -> str:
    """Hash of everything that the machine code depends on. root: the folder of kernel sources."""
    digest = hashlib.sha256()
    sources = {path for pattern in _SOURCES for path in root.glob(pattern)}
    writers = {path for pattern in _WRITERS for path in root.glob(pattern)}
    for path in sorted(sources - writers):
        body = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(body)} ".encode())
        digest.update(body)
    for package, name in _PACKAGES.items():
        digest.update(_package_file(package, name))
    for word in (sys.version, target_identity()):
        digest.update(f"{word}\n".encode())
    return digest.hexdigest()[:24]


def _package_file(package: str, name: str) -> bytes:
    """A file of an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise BackendError(f"the package {package} is missing: install edgellm again")
    return Path(spec.origin).with_name(name).read_bytes()


class Library:
    """Loaded kernels by key. Keep it alive as long as their addresses are used.

    Threads may share one.
    """

    def __init__(self, cache_root: Path | None, on_compile: Progress | None = None) -> None:
        self._folder = _open_folder(cache_root) if cache_root else None
        self._on_compile = on_compile
        self._addresses: dict[KernelKey, int] = {}
        self._memory: list[object] = []  # what the addresses point into
        self._lock = threading.RLock()  # checking a new kernel loads others

    def load(self, keys: Iterable[KernelKey]) -> None:
        """Makes all of `keys` available, compiling what the folder does not have."""
        with self._lock:
            wanted = sorted(set(keys) - self._addresses.keys())
            stored = {k: body for k in wanted if (body := self._stored(k)) is not None}
            if stored:
                self._link(stored)
            if len(stored) < len(wanted):
                self._make([key for key in wanted if key not in stored])

    def address(self, key: KernelKey) -> int:
        """Where the kernel's code is."""
        return self._addresses[key]

    def _stored(self, key: KernelKey) -> bytes | None:
        """The stored object, unless it is missing, cut short or damaged."""
        data = self._folder.read(f"{symbol(key)}.code") if self._folder else None
        return unsealed(symbol(key), data)

    def _make(self, missing: list[KernelKey]) -> None:
        """Compiles, checks and stores kernels, each when it is made: an interrupt loses few."""
        from edgellm.kernels.cpu.self_check import CHECKED, check

        unchecked: dict[KernelKey, bytes] = {}  # checking one may need others
        with closing(self._compiled(missing)) as made:
            for number, next_key in enumerate(missing):
                if self._on_compile:
                    self._on_compile(next_key, number, len(missing))
                key, body = next(made)
                if CAN_FLATTEN:
                    body = flatten(body, symbol(key)).pack()
                if key[0] in CHECKED:
                    unchecked[key] = body
                else:
                    self._link({key: body})
                    self._store(key, body)
        for key, body in unchecked.items():
            self._link({key: body})
            try:
                check(key, self)
            except BaseException:
                del self._addresses[key]
                raise
            self._store(key, body)

    def _compiled(self, missing: list[KernelKey]) -> Generator[tuple[KernelKey, bytes], None, None]:
        """Object files, by several processes where there is enough to do."""
        from edgellm.kernels.cpu.compilers import FEWEST, MOST, side_by_side

        processes = min(MOST, usable_threads(), len(missing) // FEWEST)
        made = side_by_side(missing, processes) if processes > 1 else ((k, None) for k in missing)
        for key, body in made:
            yield key, compiled_here(key) if body is None else body

    def _store(self, key: KernelKey, body: bytes) -> None:
        if self._folder is None:
            return
        try:
            self._folder.write(f"{symbol(key)}.code", sealed(symbol(key), body))
        except OSError as error:
            _log.warning("the kernel cache cannot be written (%s): it is not used", error)
            self._folder = None

    def _link(self, objects: dict[KernelKey, bytes]) -> None:
        link = _map_images if CAN_FLATTEN else _link_objects
        addresses, memory = link({symbol(key): body for key, body in objects.items()})
        self._memory.append(memory)
        self._addresses.update({key: addresses[symbol(key)] for key in objects})


def compiled_here(key: KernelKey) -> bytes:
    """A kernel's object file, made by this process."""
    from edgellm.kernels.cpu.compile import kernel_object
    from edgellm.kernels.cpu.ops import KERNELS

    return kernel_object(symbol(key), KERNELS[key[0]](*key[1:]))


def _map_images(bodies: dict[str, bytes]) -> tuple[dict[str, int], object]:
    """Addresses by symbol, and what must stay alive for them."""
    mapping = Mapping([Image.unpack(body) for body in bodies.values()])
    return dict(zip(bodies, mapping.addresses, strict=True)), mapping


def _link_objects(bodies: dict[str, bytes]) -> tuple[dict[str, int], object]:
    """The same for object files."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    for body in bodies.values():
        engine.add_object_file(binding.ObjectFileRef.from_data(body))
    engine.finalize_object()
    addresses = {name: engine.get_function_address(name) for name in bodies}
    for name, address in addresses.items():
        if not address:
            raise BackendError(f"kernel {name} is missing from its object file")
    return addresses, engine


def _open_folder(root: Path) -> PrivateFolder | None:
    """The folder for this key; None when it cannot be trusted or written."""
    try:
        return PrivateFolder(root / "kernels" / cache_key())
    except OSError as error:
        _log.warning("no kernel cache (%s): kernels are compiled each time", error)
        return None
