"""`edgellm tokenize` on SmolLM2, and what it refuses."""

import io
import json
import sys
from pathlib import Path

import pytest

from edgellm import cli

WEIGHTS = pytest.mark.weights


def ids(capsys: pytest.CaptureFixture[str], *words: str) -> list[int]:
    assert cli.main(["tokenize", *words]) == 0
    return [int(word) for word in capsys.readouterr().out.split()]


@WEIGHTS
def test_ids_on_one_line(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(smollm2)
    assert ids(capsys, model, "Hello world") == [19556, 905]
    assert ids(capsys, model, "--no-special", "Hello world") == [19556, 905]
    assert ids(capsys, model, "<|im_end|>") == [2]
    assert len(ids(capsys, model, "<|im_end|>", "--no-parse-special")) > 1
    assert ids(capsys, model, "Hello world", "--count") == [2]


@WEIGHTS
def test_json_has_the_pieces(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tokenize", str(smollm2), "--json", "Hello \U0001f9ff"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["count"] == len(report["token_ids"]) == len(report["pieces"])
    assert report["pieces"][0] == "Hello"
    raw = [p.encode() if isinstance(p, str) else bytes(p) for p in report["pieces"]]
    assert b"".join(raw) == "Hello \U0001f9ff".encode()
    assert any(isinstance(piece, list) for piece in report["pieces"])  # part of a character


@WEIGHTS
def test_standard_input_and_files_are_taken_as_they_are(
    smollm2: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = [19556, 905, 198]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Hello world\n")))
    assert ids(capsys, str(smollm2)) == expected
    (tmp_path / "text").write_text("Hello world\n")
    assert ids(capsys, str(smollm2), "--file", str(tmp_path / "text")) == expected


def test_nobody_waits_for_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["tokenize", "model"]) == 2
    assert "no text: give one" in capsys.readouterr().err


def test_two_texts_are_one_too_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tokenize", "model", "text", "--file", "file"]) == 2
    assert "twice" in capsys.readouterr().err


def test_a_file_that_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"something else")
    assert cli.main(["tokenize", str(file), "text"]) == 2
    assert "m.gguf" in capsys.readouterr().err
