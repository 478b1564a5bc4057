"""Drivers are found where wheels put them, and the processor's come last."""

import os
from pathlib import Path
from types import SimpleNamespace

import pyopencl as cl
import pytest

from edgellm.kernels.opencl import drivers

NAMES = ("Intel(R) OpenCL", "Intel(R) OpenCL Graphics", "Portable Computing Language")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, str]]:
    """What the loader finds in its folder each time that it looks; Intel's wheel is installed."""
    looks: list[dict[str, str]] = []

    def look() -> list[SimpleNamespace]:
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        looks.append({entry.name: entry.read_text() for entry in folder.iterdir()})
        return [SimpleNamespace(name=name) for name in NAMES]

    def wheel(name: str) -> list[SimpleNamespace]:
        assert name == "intel-opencl-rt"
        paths = (tmp_path / "lib" / name for name in ("libother.so", "libintelocl.so"))
        return [SimpleNamespace(name=p.name, locate=lambda p=p: p) for p in paths]

    system = tmp_path / "vendors"
    system.mkdir()
    (system / "card.icd").write_text("libcard.so\n")
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setattr(drivers, "_SYSTEM", system)
    monkeypatch.setattr(drivers, "files", wheel)
    monkeypatch.setattr(cl, "get_platforms", look)
    return looks


def test_a_wheel_and_the_system(asked: list[dict[str, str]], tmp_path: Path) -> None:
    assert [p.name for p in drivers.platforms()] == [*NAMES[1:], NAMES[0]]
    library = (tmp_path / "lib" / "libintelocl.so").resolve()
    assert asked == [{"card.icd": "libcard.so\n", "wheel.icd": f"{library}\n"}]
    assert "OCL_ICD_VENDORS" not in os.environ


def test_what_the_user_says_holds(
    asked: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "vendors"))
    drivers.platforms()
    assert asked == [{"card.icd": "libcard.so\n"}]
    assert os.environ["OCL_ICD_VENDORS"] == str(tmp_path / "vendors")
