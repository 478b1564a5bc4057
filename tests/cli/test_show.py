"""`edgellm show`: the same facts for people and for programs."""

import json
from pathlib import Path

import pytest

from edgellm.cli import main
from tests.cli.storing import store_model
from tests.gguf_writer import F32, Q8_0, write_gguf
from tests.models.heads import add_head
from tests.models.tiny import write_tiny


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def model(home: Path) -> Path:
    path = home / "file.gguf"
    metadata = {
        "general.architecture": "llama",
        "general.name": "Evil \x1b[2J name",
        "llama.block_count": 1,
        "llama.context_length": 512,
        "llama.embedding_length": 64,
        "llama.attention.head_count": 4,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": ["a", "b", "c"],
        "tokenizer.chat_template": "{{ messages }}",
    }
    tensors = [
        ("blk.0.attn_k.weight", (64, 64), Q8_0, bytes(64 * 68)),
        ("output_norm.weight", (64,), F32, bytes(256)),
    ]
    write_gguf(path, metadata, tensors)
    return path


def test_people_see_all_there_is_to_know(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(model), "--context", "100"]) == 0
    out = capsys.readouterr().out
    for part in ("llama", "4,160", "512 tokens", "gpt2, 3 tokens", "{{ messages }}"):
        assert part in out
    assert "at 100 tokens" in out
    assert ["Q8_0", "1", "4,096", "4,352", "8.50"] in [line.split("\t") for line in out.split("\n")]
    assert "\x1b" not in out


def test_heads_are_told_of_files_that_have_some(
    model: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(model)]) == 0
    assert "MTP" not in capsys.readouterr().out
    assert main(["show", str(write_tiny(home, "qwen35", add_head))]) == 0
    assert "1 (the first one guesses tokens ahead)" in capsys.readouterr().out


def test_programs_get_the_same_numbers(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(model), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["active_parameters"] == 4160
    assert shown["architecture"] == "llama" and shown["supported"] is True
    assert shown["tensor_types"][0] == {
        "type": "Q8_0",
        "tensors": 1,
        "parameters": 4096,
        "bytes": 4352,
    }
    memory = shown["memory"]
    assert memory["context"] == 512
    assert memory["kv_cache"] == 512 * 4 * 2 * 16 * 2
    assert memory["total"] == memory["weights"] + memory["kv_cache"]


def test_a_stored_name_will_do(capsys: pytest.CaptureFixture[str]) -> None:
    path = store_model("own")
    assert main(["show", "own"]) == 0
    assert str(path) in capsys.readouterr().out


def test_what_is_not_here_is_not_fetched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "smollm2"]) == 2
    assert "`edgellm pull smollm2` fetches it" in capsys.readouterr().err


@pytest.mark.parametrize("context", ["0", "-5", "many"])
def test_a_bad_context_is_2(context: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(model), "--context", context]) == 2
    assert "--context" in capsys.readouterr().err


def test_a_file_that_is_no_model_is_2(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "text.gguf").write_text("not a model")
    assert main(["show", str(home / "text.gguf")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("edgellm: ") and "Traceback" not in err
