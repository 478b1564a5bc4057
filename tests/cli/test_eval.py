"""`edgellm eval`: llama.cpp's chunking, with a scripted model and on SmolLM2."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import cli
from edgellm.errors import RequestError
from edgellm.eval.perplexity import perplexity
from edgellm.llm import Model
from edgellm.types import LoadOptions
from tests.mock_model import BOS, MockModel, make_manager, noise

TEXT = "It was a bright cold day in April, and the clocks were striking thirteen."


def mock() -> Model:
    manager = make_manager(MockModel(noise), context_length=512, num_blocks=256)
    return Model(manager, manager.models()[0])


def by_definition(ids: list[int], context: int) -> list[float]:
    """Losses of the second half of each chunk, straight from the logits."""
    losses = []
    for start in range(0, len(ids) - context + 1, context):
        chunk = [BOS, *ids[start + 1 : start + context]]
        for position in range(context // 2, context - 1):
            row = noise(chunk[: position + 1], 0).astype(float)
            losses.append(math.log(np.exp(row).sum()) - row[chunk[position + 1]])
    return losses


@pytest.mark.parametrize("context", [8, 9, 30])
def test_the_second_half_of_each_chunk_is_scored(context: int) -> None:
    seen: list[Any] = []
    with mock() as model:
        found = perplexity(model, TEXT, context, watch=lambda *progress: seen.append(progress))
        losses = by_definition(model.tokenize(TEXT), context)
    assert found.perplexity == pytest.approx(math.exp(np.mean(losses)))
    assert found.tokens == len(losses) == found.chunks * (context - 1 - context // 2)
    assert found.chunks == (len(TEXT) + 1) // context
    assert found.error == pytest.approx(
        found.perplexity * np.std(losses, ddof=1) / len(losses) ** 0.5
    )
    assert [done for done, _, _ in seen] == list(range(1, found.chunks + 1))
    assert seen[-1][1:] == (found.chunks, found.perplexity)


def test_the_first_chunks_alone() -> None:
    with mock() as model:
        found = perplexity(model, TEXT, 16, max_chunks=2)
        losses = by_definition(model.tokenize(TEXT)[:32], 16)
    assert (found.chunks, found.tokens) == (2, len(losses))
    assert found.perplexity == pytest.approx(math.exp(np.mean(losses)))


@pytest.mark.parametrize(("text", "context", "said"), [("short", 16, "6 tokens"), (TEXT, 3, "4")])
def test_what_cannot_be_scored(text: str, context: int, said: str) -> None:
    with mock() as model, pytest.raises(RequestError, match=said):
        perplexity(model, text, context)
    with mock() as model, pytest.raises(RequestError, match="0 chunks"):
        perplexity(model, TEXT, 16, max_chunks=0)


def test_the_command_prints_a_line_or_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[LoadOptions] = []

    def load(name: str, options: LoadOptions) -> Model:
        asked.append(options)
        return mock()

    monkeypatch.setattr(Model, "open", load)
    (tmp_path / "model.gguf").write_bytes(b"never read")
    (tmp_path / "text").write_text(TEXT)
    words = ["eval", "perplexity", str(tmp_path / "model.gguf"), str(tmp_path / "text")]
    assert cli.main([*words, "--context", "16"]) == 0
    seen = capsys.readouterr()
    assert seen.out.startswith("perplexity ") and "in 4 chunks of 16" in seen.out
    assert seen.err == ""
    assert asked[0].context_length == 16
    assert cli.main([*words, "--context", "16", "--json", "--chunks", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"perplexity", "error", "tokens", "chunks", "context"}
    assert report["chunks"] == 3
    assert cli.main(words) == 2  # the text does not fill 512 tokens
    assert cli.main(["eval"]) == 2


@pytest.fixture
def kl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `eval kl model.gguf text` with scripted models and more words; returns the code and
    (path, backend) of each model loaded."""

    def run(*words: str) -> tuple[int, list[tuple[str, str]]]:
        loaded: list[tuple[str, str]] = []

        def load(name: str, options: LoadOptions) -> Model:
            loaded.append((Path(name).name, options.backend))
            assert options.context_length in (16, 512)
            return mock()

        monkeypatch.setattr(Model, "open", load)
        model, text = tmp_path / "model.gguf", tmp_path / "text"
        for path in (model, tmp_path / "other.gguf"):
            path.write_bytes(b"never read")
        text.write_text(TEXT)
        monkeypatch.chdir(tmp_path)
        return cli.main(["eval", "kl", str(model), *words, str(text)]), loaded

    return run


def test_kl_prints_fields_or_json(kl: Any, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--context", "16", "--against", "other.gguf"]
    assert kl(*short) == (0, [("model.gguf", "auto"), ("other.gguf", "auto")])
    seen = capsys.readouterr()
    fields = dict(line.split("  ", 1) for line in seen.out.splitlines())
    fields = {name: value.strip() for name, value in fields.items()}
    assert fields["mean KL divergence"] == fields["99th percentile"] == "0"
    assert fields["same top token"] == "100.00%"
    assert fields["perplexity"] == fields["perplexity compared with"]
    assert fields["scored"] == "28 tokens in 4 chunks of 16"
    assert seen.err == ""
    assert kl(*short, "--json", "--chunks", "3")[0] == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["mean"], report["percentile_99"], report["top_agreement"]) == (0, 0, 1)
    assert report["perplexity"] == report["against_perplexity"] > 1
    assert (report["tokens"], report["chunks"], report["context"]) == (21, 3, 16)
    assert len(report) == 8


def test_kl_between_backends(kl: Any) -> None:
    short = ["--context", "16", "--backend", "cpu", "--against-backend", "reference"]
    assert kl(*short) == (0, [("model.gguf", "cpu"), ("model.gguf", "reference")])
    code, loaded = kl(*short, "--against", "other.gguf")
    assert (code, loaded) == (0, [("model.gguf", "cpu"), ("other.gguf", "reference")])


def test_kl_that_cannot_run(kl: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert kl() == (2, [])
    assert "nothing to compare with" in capsys.readouterr().err
    assert kl("--against", "missing.gguf") == (2, [])
    assert "missing.gguf" in capsys.readouterr().err
    assert kl("--against", "other.gguf")[0] == 2  # the text does not fill 512 tokens


def test_a_terminal_sees_how_far_it_is(
    kl: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert kl("--context", "16", "--against", "other.gguf", "--json")[0] == 0
    seen = capsys.readouterr()
    assert "100%" in seen.err and "0.0000" in seen.err
    assert json.loads(seen.out)["chunks"] == 4


@pytest.mark.weights
def test_smollm2_comes_near_llama_cpp(
    smollm2: Path, oracle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first three chunks; the whole text is measured where speed is."""
    words = ["eval", "perplexity", str(smollm2), str(oracle / "text" / "gpl3-tail.txt")]
    assert cli.main([*words, "--chunks", "3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tokens"] == 3 * 255
    assert 5 < report["perplexity"] < 30


@pytest.mark.weights
def test_smollm2_lies_near_itself_on_the_reference_backend(
    smollm2: Path, oracle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", "kl", str(smollm2), str(oracle / "text" / "gpl3-tail.txt"), "--context", "64"]
    assert cli.main([*words, "--against-backend", "reference", "--chunks", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["tokens"] == 2 * 31
    assert 0 <= report["mean"] < 0.05
    assert report["top_agreement"] > 0.8
    assert report["perplexity"] == pytest.approx(report["against_perplexity"], rel=0.1)


def test_tasks_of_our_own_or_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Model, "open", lambda name, options: mock())
    model, items = tmp_path / "model.gguf", tmp_path / "items"
    model.write_bytes(b"never read")
    items.write_text('{"query": "a", "choices": ["b", "c"], "gold": 0}\n')
    assert cli.main(["eval", "choice", str(model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] > 20
    assert cli.main(["eval", "choice", str(model), str(items)]) == 0
    assert "50.00% by chance (1 items)" in capsys.readouterr().out
    assert cli.main(["eval", "needle", str(model), "--length", "300"]) == 0
    table = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert table == [
        ["TOKENS", "0% DEEP", "25% DEEP", "50% DEEP", "75% DEEP", "100% DEEP"],
        ["300", *["no"] * 5],
    ]
    items.write_text("{}")
    assert cli.main(["eval", "calls", str(model), str(items)]) == 2
    assert "items, line 1: no task" in capsys.readouterr().err


@pytest.mark.weights
def test_a_table_of_several_models(
    smollm2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text(TEXT * 8)
    (tmp_path / "items").write_text('{"query": "The sky is", "choices": ["blue", "x"], "gold": 0}')
    model, picture = str(smollm2), tmp_path / "picture.svg"
    words = ["eval", "table", model, "--text", str(tmp_path / "text"), "--context", "32"]
    words += ["--chunks", "1", "--kv-cache-types", "f16,q8_0", "--picture", str(picture)]
    words += ["--choice-file", str(tmp_path / "items")]
    assert cli.main([*words, "--against", model]) == 0
    heading, first, second, _, chosen = capsys.readouterr().out.splitlines()
    assert heading.split("\t") == [
        *("MODEL", "KV CACHE", "WEIGHTS", "BITS", "CACHE", "FITS"),
        *("PERPLEXITY", "+/-", "KL", "SAME TOP", "CHOICE"),
    ]
    assert first.split("\t")[-3:] == ["0", "100.00%", "100.0%"]
    assert second.split("\t")[1] == "q8_0"
    assert chosen.split() == ["best", "kl", "that", "fits", "here", f"{model},", "f16"]
    assert picture.read_text().count("<circle") == 2
    assert cli.main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [row["kv_cache_type"] for row in said["rows"]] == ["f16", "q8_0"]
    assert said["rows"][0]["kl"] is None and said["best"] in said["rows"]


@pytest.mark.weights
def test_a_table_is_shown_though_its_picture_cannot_be_drawn(
    smollm2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "items").write_text('{"query": "The sky is", "choices": ["blue", "x"], "gold": 0}')
    words = ["eval", "table", str(smollm2), "--choice-file", str(tmp_path / "items")]
    assert cli.main([*words, "--picture", str(tmp_path / "none" / "a.svg")]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("MODEL") and "No such file" in shown.err


@pytest.mark.weights
@pytest.mark.parametrize("words", [[], ["--choice"]])
def test_an_empty_text_fills_no_chunk(
    smollm2: Path, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").touch()
    words = ["eval", "table", str(smollm2), "--text", str(tmp_path / "empty"), *words]
    assert cli.main(words) == 2
    assert "the text has 0 tokens and one chunk takes 1024" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to measure"),
        (["--choice", "--against", "m"], "give --text FILE"),
        (["--choice", "--kv-cache-types", "f16,q9"], "kv_cache_type is 'q9'"),
        (["--choice-file", "missing.jsonl"], "missing.jsonl"),
        (["--text", __file__, "--picture", __file__], "is a file that is read"),
    ],
)
def test_a_table_that_cannot_be(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["eval", "table", "model.gguf", *words]) == 2
    assert said in capsys.readouterr().err
