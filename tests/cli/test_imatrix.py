"""`edgellm imatrix` from the command line, and what quantize makes of it."""

import json
from pathlib import Path

import pytest

from edgellm.cli import main
from edgellm.gguf_loader import open_gguf
from edgellm.quantize.importance import read_importance

WORDS = ["--context", "64", "--chunks", "1"]


@pytest.mark.weights
def test_a_matrix_is_written_and_used(
    smollm2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, matrix, out = tmp_path / "a.txt", tmp_path / "i.gguf", tmp_path / "out.gguf"
    text.write_text("The sky is blue because air scatters short waves more. " * 20)
    words = ["imatrix", str(smollm2), str(text), "-o", str(matrix), *WORDS]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    found = read_importance(matrix)
    assert report["weights"] == len(found.means) == 30 * 7
    assert found.means["blk.3.ffn_down.weight"].shape == (1, 1536)
    assert main(words) == 2  # it is there already
    assert main([*words[:4], str(text), *WORDS, "--force"]) == 2
    assert "is a file that is read" in capsys.readouterr().err and "blue" in text.read_text()
    quantize = ["quantize", str(smollm2), str(out), "--type", "Q4_0", "--imatrix", str(matrix)]
    only = ["--tensor-type", r"blk\.(?!0\.)=Q4_1"]  # the other layers are Q4_1 and stay so
    assert main([*quantize, *only]) == 0
    with open_gguf(out) as file:
        assert file.string("quantize.imatrix.file") == str(matrix)
        assert file.integer("quantize.imatrix.entries_count") == 30 * 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "nowhere/x.gguf"], "there is no folder"),
        (["-o", "x.gguf", "--backend", "opencl"], "expected cpu or reference"),
    ],
)
def test_bad_usage(
    tmp_path: Path,
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("text")
    assert main(["imatrix", "model.gguf", "a.txt", *words]) == 2
    assert message in capsys.readouterr().err
