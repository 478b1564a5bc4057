"""`edgellm quantize` from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from edgellm.cli import main, quantize as quantize_command
from edgellm.gguf_loader import open_gguf
from edgellm.quantize.importance import Driven, write_importance
from tests.models.tiny import write_tiny


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny(tmp_path, "llama", format_name="F16")


def test_a_file_is_written(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.gguf"
    words = ["quantize", str(model), str(out), "--type", "Q8_0", "--tensor-type", "ffn_up=Q4_0"]
    assert main(words) == 0
    told = capsys.readouterr()
    assert "out.gguf" in told.out and "bits per weight" in told.out and not told.err
    with open_gguf(out) as file:
        assert file.tensors["blk.0.ffn_up.weight"].type_name == "Q4_0"
        assert file.tensors["blk.0.ffn_gate.weight"].type_name == "Q8_0"
    assert main(words) == 2
    assert "already" in capsys.readouterr().err
    assert main([*words, "--force", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["file_size"] == out.stat().st_size
    assert report["type"] == "Q8_0"
    assert {"name", "shape", "from", "type", "bytes", "fallback_of", "error"} == report["tensors"][
        0
    ].keys()


def test_a_dry_run_writes_nothing(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.iterdir())
    assert main(["quantize", str(model), "--type", "Q4_K_M", "--dry-run"]) == 0
    told = capsys.readouterr()
    assert "blk.0.attn_q.weight" in told.out and "after" in told.out
    assert "rows are no multiple" in told.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["OUT", "--type", "Q9_9"], "there is no type 'Q9_9'"),
        (["--type", "Q8_0"], "no OUT"),
        (["MODEL", "--type", "Q8_0", "--force"], "is a file that is read"),
        (["TEXT", "--type", "Q8_0", "--force", "--gptq", "TEXT"], "is a file that is read"),
        (["OUT", "--type", "Q8_0", "--threads", "0"], "expected 1 or more"),
        (["OUT", "--type", "Q8_0", "--tensor-type", "x"], "expected REGEX=TYPE"),
        (["OUT", "--type", "Q8_0", "--imatrix", "MODEL"], "no importance matrix"),
        (["OUT", "--target-size", "1000"], "allow smaller types, or more bytes"),
        (["OUT", "--target-bpw", "-1"], "expected more than 0"),
        (["OUT", "--target-bpw", "nan"], "expected more than 0"),
        (["OUT", "--target-bpw", "5", "--type", "Q8_0"], "not allowed with"),
        (["OUT", "--target-bpw", "5", "--pure"], "--pure is for --type"),
        (["OUT", "--target-bpw", "5", "--candidates", "Q8_0,Q9"], "there is no type 'Q9'"),
        (["OUT", "--type", "Q8_0", "--candidates", "Q8_0"], "--candidates is for"),
        (["OUT", "--type", "Q8_0", "--calibrate", "MODEL"], "--calibrate is for"),
        (["OUT", "--type", "Q8_0", "--awq"], "--awq wants --imatrix"),
        (["OUT", "--type", "Q8_0", "--smooth", "--awq"], "not allowed with"),
        (["nowhere/OUT", "--type", "Q8_0"], "cannot be written"),
    ],
)
def test_bad_usage(
    model: Path,
    tmp_path: Path,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = tmp_path / "text"
    text.touch()
    before = sorted(tmp_path.iterdir())
    places = {"MODEL": str(model), "TEXT": str(text)}
    words = [places.get(w, str(tmp_path / w) if w.endswith("OUT") else w) for w in words]
    assert main(["quantize", str(model), *words]) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_a_size_instead_of_a_type(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.gguf"
    limit = model.stat().st_size // 2
    assert main(["quantize", str(model), str(out), "--target-size", str(limit), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["file_size"] == out.stat().st_size <= limit
    errors = {tensor["name"]: tensor["error"] for tensor in report["tensors"]}
    assert errors["blk.0.ffn_up.weight"] > 0 and errors["output_norm.weight"] is None
    words = ["quantize", str(model), "--target-bpw", "9", "--candidates", "q8_0,q4_0", "--dry-run"]
    assert main(words) == 0
    table = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert table[0][-1] == "ERROR"
    assert {row[3] for row in table if row[0].endswith("attn_q.weight")} <= {"Q8_0", "Q4_0", "F16"}


def test_a_text_whose_errors_are_made_up_for(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def read(file: object, path: str, *sizes: int) -> list[list[int]]:
        asked.append((path, *sizes))  # the model has no tokenizer
        return [[1, 5, 3, 7, 2, 9, 11, 4] * 4] * 12

    monkeypatch.setattr(quantize_command, "_read", read)
    plain, out, sized = (tmp_path / name for name in ("plain.gguf", "out.gguf", "sized.gguf"))
    words = ["quantize", str(model), str(out), "--type", "Q4_0", "--gptq", "text"]
    assert main(words) == 0
    assert main(["quantize", str(model), str(plain), "--type", "Q4_0"]) == 0
    with open_gguf(out) as file, open_gguf(plain) as other:
        down = "blk.0.ffn_down.weight"
        assert file.tensors[down].type_name == other.tensors[down].type_name == "Q4_0"
        assert file.data(down).tobytes() != other.data(down).tobytes()
    words = ["quantize", str(model), str(sized), "--target-bpw", "8", "--calibrate", "other"]
    assert main(words) == 0
    assert asked == [("text", 512, 16), ("other", 256, 3)]


@pytest.mark.parametrize(
    ("chunks", "code", "said"),
    [
        (8, 0, "12 matrices of 96, 128 columns are rounded plainly: 256 tokens say too little"),
        (1, 2, "the text gives 32 tokens, which is less than 4 for each column"),
    ],
)
def test_a_text_that_is_too_short_for_wide_matrices(
    model: Path,
    tmp_path: Path,
    chunks: int,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(quantize_command, "_read", lambda *_: [[1, 5, 3, 7] * 8] * chunks)
    words = ["quantize", str(model), str(tmp_path / "out.gguf"), "--type", "Q4_0"]
    assert main([*words, "--gptq", "text"]) == code
    assert said in capsys.readouterr().err


def matrix_of(model: Path, path: Path) -> Path:
    """An importance matrix of every seventh column of all matrices."""
    with open_gguf(model) as file:
        matrices = [t for t in file.tensors.values() if t.rows > 1 and t.name.startswith("blk")]
    sums = {t.name: np.where(np.arange(t.columns) % 7, 0.01, 9)[None] for t in matrices}
    seen = {name: Driven(driven, np.ones(1, np.int64)) for name, driven in sums.items()}
    write_importance(path, seen, ["text"], 1, 32)
    return path


@pytest.mark.parametrize("option", ["--awq", "--smooth"])
def test_columns_are_scaled(
    model: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, matrix = tmp_path / "out.gguf", matrix_of(model, tmp_path / "matrix.gguf")
    words = ["quantize", str(model), str(out), "--type", "Q4_0", "--imatrix", str(matrix)]
    assert main([*words, option]) == 0
    assert "groups of matrices are scaled" in capsys.readouterr().err
    with open_gguf(model) as file, open_gguf(out) as scaled:
        norm = "blk.0.attn_norm.weight"
        assert scaled.tensors[norm].type_name == file.tensors[norm].type_name
        assert scaled.data(norm).tobytes() != file.data(norm).tobytes()


def test_an_architecture_whose_scales_cannot_move(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_tiny(tmp_path, "nanbeige", format_name="F16")
    matrix = matrix_of(model, tmp_path / "matrix.gguf")
    words = ["quantize", str(model), str(tmp_path / "out.gguf"), "--type", "Q4_0", "--awq"]
    assert main([*words, "--imatrix", str(matrix)]) == 2
    assert "weights of nanbeige (" in capsys.readouterr().err
    assert not (tmp_path / "out.gguf").exists()
