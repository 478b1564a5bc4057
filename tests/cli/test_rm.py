"""`edgellm rm`: deletes what pull stored and nothing else."""

from pathlib import Path

import pytest

from edgellm.cli import main
from tests.cli.storing import store_model


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    return tmp_path


def test_stored_models_go(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = store_model("one"), store_model("two")
    assert main(["rm", "ONE", "two"]) == 0
    assert not first.exists() and not second.exists()
    assert "freed" in capsys.readouterr().out


def test_anything_else_stays(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = store_model("one")
    own = home / "own.gguf"
    own.write_bytes(b"mine")
    for name in ("on", str(own), "../own", "qwen3-4b"):
        assert main(["rm", name]) == 2
        assert capsys.readouterr().err.startswith("edgellm: ")
    assert kept.exists() and own.exists()
    assert main(["rm"]) == 2
    assert main(["rm", "on"]) == 2
    assert "did you mean one" in capsys.readouterr().err
