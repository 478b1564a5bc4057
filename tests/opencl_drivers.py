"""OpenCL drivers that the test extra installs, PoCL's and Intel's: processors as devices.

PoCL's goes first where it works: it knows no processor younger than its compiler. Intel's has
subgroups, half and integer dot products.
"""

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

_SYSTEM = Path("/etc/OpenCL/vendors")


def register(folder: Path) -> None:
    """Fills a folder for OCL_ICD_VENDORS: the system's drivers, and Intel's.

    The wheel of Intel's names a folder that is not here; PoCL's is always found.
    """
    for entry in _SYSTEM.glob("*.icd"):
        (folder / entry.name).write_text(entry.read_text())
    try:
        listed = files("intel-opencl-rt") or []
    except PackageNotFoundError:
        return
    for file in listed:
        if file.name == "libintelocl.so":
            (folder / "intel.icd").write_text(f"{Path(str(file.locate())).resolve()}\n")


def by_preference(platforms: list[Any]) -> list[Any]:
    """The same platforms, PoCL before others."""
    return sorted(platforms, key=lambda p: p.name.strip() != "Portable Computing Language")
