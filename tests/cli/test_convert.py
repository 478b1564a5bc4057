"""`edgellm convert` from the command line."""

import json
from pathlib import Path

import pytest

from edgellm.cli import main
from edgellm.gguf_loader import open_gguf
from tests.convert.checkpoints import write_checkpoint


def test_a_folder_becomes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(tmp_path / "model", "Qwen3ForCausalLM")
    out = tmp_path / "out.gguf"
    words = ["convert", str(tmp_path / "model"), str(out), "--type", "F16"]
    assert main(words) == 0
    assert "out.gguf" in capsys.readouterr().out
    with open_gguf(out) as file:
        assert file.string("general.architecture") == "qwen3"
        assert file.string("general.name") == "model"
        assert file.integer("general.file_type") == 1
    assert main(words) == 2
    assert "already" in capsys.readouterr().err
    assert main([*words, "--force", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["file_size"] == out.stat().st_size
    assert report["tensors"] == {"F32": 9, "F16": 16}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere", "out.gguf"], "is no folder"),
        (["model", "nowhere/out.gguf"], "there is no folder"),
        (["model", "out.gguf", "--type", "Q4_X"], "Q4_X"),
        (["model", "model/config.json", "--force"], "is a file that is read"),
    ],
)
def test_bad_usage(
    tmp_path: Path,
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_checkpoint(tmp_path / "model", "LlamaForCausalLM")
    monkeypatch.chdir(tmp_path)
    assert main(["convert", *words]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", ["q8_0", "Q4_K_M"])
def test_other_types_by_name(tmp_path: Path, name: str) -> None:
    write_checkpoint(tmp_path / "model", "LlamaForCausalLM")
    out = tmp_path / "out.gguf"
    assert main(["convert", str(tmp_path / "model"), str(out), "--outtype", name]) == 0
    with open_gguf(out) as file:
        assert file.tensors["blk.0.attn_q.weight"].type_name in ("Q8_0", "Q5_0", "Q4_0", "IQ4_NL")
        assert file.integer("general.file_type") == {"q8_0": 7, "Q4_K_M": 15}[name]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out.gguf"]
