"""The README's example runs, and its other promises are true."""

import re
from pathlib import Path

import pytest

from edgellm.cli import COMMANDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


@pytest.mark.weights
def test_the_example_runs(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert example.count('"smollm2"') == 1
    code = example.replace('"smollm2"', repr(str(smollm2)))
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.endswith("\n Paris\n")


def test_every_command_is_listed() -> None:
    listed = re.findall(r"^\| `edgellm (\w+)", README, re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


def test_what_it_points_to_is_there() -> None:
    headings = re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    sections = {"#" + heading.lower().replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^):]+)\)", README):
        assert target in sections or (ROOT / target).exists(), target


ADDING = (ROOT / "docs" / "adding.md").read_text("utf-8")
_FILE = r"`((?:edgellm|kernels|gguf_loader|tui|tests|docs)/[a-z_/.]+)`"


def test_the_recipes_name_what_is_there() -> None:
    named = re.findall(_FILE, ADDING)
    assert named
    for path in named:
        assert (ROOT / path).exists(), path
    for name, path in re.findall(rf"`(\w+)`\s+(?:in|of)\s+{_FILE}", ADDING):
        where = ROOT / path
        files = [where] if where.is_file() else where.rglob("*.py")
        assert any(name in file.read_text("utf-8") for file in files), f"{name} in {path}"


def test_the_tree_is_the_checkouts() -> None:
    (tree,) = re.findall(r"```\n(gguf_loader/.*?)```", README, re.DOTALL)
    folder = ROOT
    for line in tree.splitlines():
        nested = line.startswith("  ")
        names = re.findall(r"(?:^|(?<=  ))[\w.]+(?:/|\.py|\.toml)(?= |$)", line)
        assert names, line
        for name in names:
            assert (folder / name if nested else ROOT / name).exists(), name
        if not nested:
            folder = ROOT / names[0]
