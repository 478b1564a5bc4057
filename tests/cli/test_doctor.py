"""`edgellm doctor`: a report for people and one for programs."""

import json
from pathlib import Path

import pytest

from edgellm.cli import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    monkeypatch.setattr("edgellm.machine._opencl", lambda: ("one card", "another card"))
    return tmp_path


def test_people_see_every_part(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for name in (
        "cpu",
        "features",
        "kernels",
        "threads",
        "memory",
        "models",
        "cache",
        "pip",
        "versions",
    ):
        assert any(line.startswith(f"{name} ") for line in out.splitlines()), name
    assert "one card" in out and "another card" in out
    assert str(home / "models") in out and "writable" in out


def test_programs_get_the_same_as_numbers(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"cpu", "memory", "opencl", "folders", "pip", "versions"}
    assert report["opencl"] == ["one card", "another card"]
    assert report["cpu"]["usable"] >= 1
    assert report["cpu"]["isa"] in report["cpu"]["isas"]
    assert report["folders"][0]["path"] == str(home / "models")
