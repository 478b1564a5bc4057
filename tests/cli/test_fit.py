"""`edgellm fit`: files, folders, names and beginnings of names; tables, JSON and exit codes."""

import json
from pathlib import Path

import pytest

from edgellm.cli import main
from edgellm.gguf_loader import open_gguf
from edgellm.quantize.plan import make_plan
from tests.cli.storing import store_model
from tests.models.tiny import write_tiny


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own; no driver of this machine is asked, nor a file near by taken."""
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("edgellm.cli.fit.gpu_memory", lambda device: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(home: Path) -> Path:
    models = home / "models"
    models.mkdir()
    for name in ("llama", "qwen3"):
        write_tiny(models, name).rename(models / f"{name}.gguf")
    return models


def test_people_learn_how_to_run_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(folder), "--memory", "1G", "--gpu-memory", "1G"]) == 0
    out = capsys.readouterr().out
    rows = [line.split("\t") for line in out.splitlines() if "\t" in line]
    assert len(rows) == 1 + 2 * 2 * 4
    assert {row[2] for row in rows[1:]} == {"cpu", "gpu"}
    assert "1.07 GB of memory, gpu with 1.07 GB" in out
    assert f"edgellm chat {folder}" in out and "--kv-cache-type f16 --gpu-layers" in out
    assert "a cache of two contexts" in out


def test_programs_get_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(folder / "llama.gguf")
    assert main(["fit", path, "--memory", "1G", "--kv-cache-type", "q8_0", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    [model] = said["models"]
    assert said["largest"] == model["model"] == "llama.gguf"
    [way] = [way for way in model["ways"] if way["device"] == "cpu"]
    assert way["kv_cache_type"] == "q8_0" and way["longest"] == model["trained"]
    assert model["best"]["kv_cache_type"] == "q8_0"


def test_nothing_fits_is_1_and_says_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(folder / "llama.gguf"), "--memory", "1000"]) == 1
    assert "load a smaller model" in capsys.readouterr().out


def test_a_beginning_of_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "qwen3-", "--memory", "3G", "--json"]) == 0
    found = {m["model"]: m for m in json.loads(capsys.readouterr().out)["models"]}
    assert {"qwen3-0.6b", "qwen3-8b"} <= found.keys() and "smollm2" not in found
    assert "edgellm pull qwen3-0.6b" in found["qwen3-0.6b"]["reason"]
    assert "alone are more than the memory" in found["qwen3-8b"]["reason"]


def test_all_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    store_model("own")
    assert main(["fit", "--json", "--memory", "1G"]) == 1  # it is here, and no model
    names = [model["model"] for model in json.loads(capsys.readouterr().out)["models"]]
    assert names[0] == "own" and "smollm2" in names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing-like-it"], "no model and no file is called"),
        (["smollm2", "--context", "0"], "--context is 0"),
        (["smollm2", "--memory", "much"], "is no size"),
        (["smollm2", "--parallel", "0"], "--parallel is 0"),
    ],
)
def test_bad_words_are_2(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", *words]) == 2
    assert said in capsys.readouterr().err


def test_an_empty_folder_is_2(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(home)]) == 2
    assert "without GGUF files" in capsys.readouterr().err


def test_what_quantize_would_make_is_planned_as_if_it_were_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_tiny(tmp_path, "llama", format_name="F16")
    words = ["fit", str(model), "--memory", "1G", "--kv-cache-type", "f16", "--json"]
    assert main([*words, "--variants"]) == 0
    told = json.loads(capsys.readouterr().out)["models"]
    variants = {found["variant"]: found for found in told}
    assert {None, "Q8_0", "Q4_K_M", "Q2_K"} <= variants.keys()
    made = tmp_path / "made.gguf"
    assert main(["quantize", str(model), str(made), "--type", "Q4_K_M"]) == 0
    capsys.readouterr()
    words[1] = str(made)
    assert main(words) == 0
    [real] = json.loads(capsys.readouterr().out)["models"]
    assert real["ways"] == variants["Q4_K_M"]["ways"] and real["ways"][0]["reason"] is None
    assert variants["Q4_K_M"]["path"] == str(model)


def test_a_variant_says_how_it_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_tiny(tmp_path, "llama", format_name="F16")
    with open_gguf(model) as file:
        least = make_plan(file, "Q4_K_M").nbytes
    memory = str(least + least // 4)  # not enough for F16, with a cache
    words = ["fit", str(model), "--variants", "--memory", memory, "--context", "32"]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert f"edgellm quantize {model} {model.stem}-" in told
    assert f"edgellm chat {model.stem}-" in told
