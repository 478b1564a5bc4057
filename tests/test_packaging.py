"""The wheel has what it must have and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import edgellm

ROOT = Path(__file__).parent.parent
HOMES = {
    "edgellm": "edgellm",
    "kernels": "edgellm/kernels",
    "gguf_loader": "edgellm/gguf_loader",
    "tui": "edgellm/tui",
}
IGNORED = {"__pycache__"}
SUFFIXES = {".py", ".toml", ".typed", ".cl", ".tcss", ".html", ".jsonl"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_it_holds_the_rooms_and_nothing_else(names: set[str]) -> None:
    expected = {"edgellm/models.toml"}
    for room, home in HOMES.items():
        for path in (ROOT / room).rglob("*"):
            inside = path.relative_to(ROOT / room)
            if path.is_file() and not IGNORED.intersection(inside.parts):
                expected.add(f"{home}/{inside.as_posix()}")
    packaged = {name for name in names if not name.startswith("edgellm-")}
    assert packaged == expected
    assert {Path(name).suffix for name in packaged} <= SUFFIXES


def test_it_has_one_top_level_package(names: set[str]) -> None:
    info = f"edgellm-{edgellm.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"edgellm", info}
    assert f"{info}/licenses/LICENSE" in names
    assert not [name for name in names if "test" in name]


def test_it_declares_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        entry = archive.read(f"edgellm-{edgellm.__version__}.dist-info/entry_points.txt")
    assert b"edgellm = edgellm.cli:main" in entry


def test_it_works_unpacked(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import edgellm, edgellm.kernels.ops, edgellm.gguf_loader, edgellm.tui\n"
        "from edgellm.catalog import load_catalog\n"
        "assert 'smollm2' in load_catalog()\n"
        "print(edgellm.kernels.ops.__file__, edgellm.gguf_loader.__file__, edgellm.tui.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert all(path.startswith(str(tmp_path)) for path in done.stdout.split())
