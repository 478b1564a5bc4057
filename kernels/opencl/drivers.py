"""The OpenCL platforms of this machine: of its drivers, and of drivers that pip installed.

Drivers for the processor may come as wheels: PoCL's (pocl-binary-distribution), which pyopencl
finds by itself, and Intel's (intel-opencl-rt), which nothing finds without the file written here.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyopencl as cl

_SETTING = "OCL_ICD_VENDORS"  # the folder in which the loader looks for drivers
_SYSTEM = Path("/etc/OpenCL/vendors")
_INTEL = ("intel-opencl-rt", "libintelocl.so")
LAST = "Intel(R) OpenCL"  # its platform for processors; that for graphics has a longer name


def platforms() -> list[Any]:
    """pyopencl's, Intel's for processors last. cl.Error where there is no driver at all."""
    with _wheels_known():
        return sorted(cl.get_platforms(), key=lambda platform: platform.name.strip() == LAST)


@contextmanager
def _wheels_known() -> Iterator[None]:
    """While this lasts the loader sees the driver of a wheel too. It looks once in a process."""
    driver = _wheel_driver()
    if driver is None or _SETTING in os.environ:
        yield
        return
    with TemporaryDirectory() as folder:
        for entry in _SYSTEM.glob("*.icd"):
            (Path(folder) / entry.name).write_bytes(entry.read_bytes())
        (Path(folder) / "wheel.icd").write_text(f"{driver}\n")
        os.environ[_SETTING] = folder
        try:
            yield
        finally:
            del os.environ[_SETTING]


def _wheel_driver() -> Path | None:
    """The library of Intel's driver, if it is installed in this environment."""
    distribution, library = _INTEL
    try:
        listed = files(distribution) or []
    except PackageNotFoundError:
        return None
    found = (Path(str(file.locate())).resolve() for file in listed if file.name == library)
    return next(found, None)
