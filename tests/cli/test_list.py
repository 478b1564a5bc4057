"""`edgellm list`: catalogue and store, for people, pipes and programs."""

import io
import json
import re
from pathlib import Path

import pytest

from edgellm.catalog import load_catalog
from edgellm.cli import main
from tests.cli.storing import store_model


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    return tmp_path


def test_json_has_every_model_and_where_it_is(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store_model("smollm2")
    store_model("own")
    assert main(["list", "--json"]) == 0
    models = {model["name"]: model for model in json.loads(capsys.readouterr().out)}
    assert list(models) == [*load_catalog(), "own"]
    assert models["smollm2"]["stored"] == str(path)
    assert models["smollm2"]["size"] == path.stat().st_size
    assert models["smollm2"]["sources"][0].startswith("pypi:")
    assert models["smollm2"]["sampling"] == {"temperature": 0.2, "top_p": 0.9}
    assert models["qwen3-0.6b"]["stored"] is None
    assert models["own"]["sources"] == ["url:https://host/own.gguf"]
    assert len({frozenset(model) for model in models.values()}) == 1


def test_a_pipe_gets_one_line_a_model_with_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    store_model("own")
    assert main(["list"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["NAME", "STORED", "SIZE", "LICENCE", "DESCRIPTION"]
    assert len(lines) == 1 + len(load_catalog()) + 1
    assert all(len(line) == 5 for line in lines)
    assert ["own", "yes"] == lines[-1][:2]


def test_stored_leaves_out_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--stored", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    store_model("own")
    assert main(["list", "--stored", "--json"]) == 0
    assert [model["name"] for model in json.loads(capsys.readouterr().out)] == ["own"]


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["list"]) == 0
    assert "\t" not in screen.getvalue()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert {line.split(" ")[0] for line in lines} >= set(load_catalog())
    assert all(len(line) <= 100 for line in lines)
    assert any(line.startswith("smollm2 ") for line in lines)
