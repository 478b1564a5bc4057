"""`edgellm quantize` from the command line."""

import json
from pathlib import Path

import pytest

from edgellm.cli import main
from edgellm.gguf_loader import open_gguf
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
    assert {"name", "shape", "from", "type", "bytes", "fallback_of"} == report["tensors"][0].keys()


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
        (["MODEL", "--type", "Q8_0", "--force"], "is the file that is read"),
        (["OUT", "--type", "Q8_0", "--threads", "0"], "expected 1 or more"),
        (["OUT", "--type", "Q8_0", "--tensor-type", "x"], "expected REGEX=TYPE"),
        (["OUT", "--type", "Q8_0", "--imatrix", "MODEL"], "no importance matrix"),
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
    before = sorted(tmp_path.iterdir())
    places = {"MODEL": str(model)}
    words = [places.get(w, str(tmp_path / w) if w.endswith("OUT") else w) for w in words]
    assert main(["quantize", str(model), *words]) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
