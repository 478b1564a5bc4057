"""`edgellm bench`: its tests, its reports, and that rates agree with a clock on the wall."""

import csv
import io
import json
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from edgellm import cli
from edgellm.bench.bench import opened
from edgellm.bench.timing import Workload
from edgellm.errors import BackendError
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.types import LoadOptions
from tests.models.recipes.parts import HEAD_DIM, KV_HEADS, LAYERS
from tests.models.tiny import write_tiny

LLAMA_BENCH_KEYS = {
    "build_commit", "cpu_info", "gpu_info", "backends", "model_filename", "model_type",
    "model_size", "model_n_params", "n_batch", "n_ubatch", "n_threads", "type_k", "type_v",
    "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts",
    "samples_ns", "samples_ts",
}  # fmt: skip
SHORT = ["-p", "5", "-n", "2", "-r", "2", "--backend", "reference"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model without a tokenizer: no text is needed."""
    return str(write_tiny(tmp_path_factory.mktemp("bench"), "llama"))


def report(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert cli.main(["bench", *words, "-o", "json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def test_a_part_of_the_layers_on_a_device(
    opencl: None, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [tiny, "-p", "3", "-n", "0", "-r", "1", "--backend", "opencl", "--gpu-layers", "1"]
    assert cli.main(["bench", *words, "-o", "json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)[0]["backends"] == "opencl" and "1 of 6 layers run on" in said.err
    assert cli.main(["bench", *words, "--device", "voodoo"]) == 2
    assert "device is 'voodoo': the devices here are" in capsys.readouterr().err


def test_one_row_per_test(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [tiny, "-p", "0,3,20", "-n", "2", "-d", "0,7", "-b", "1,3", "-r", "1"]
    rows = report([*words, "--backend", "reference"], capsys)
    tests = [(row["n_prompt"], row["n_gen"], row["n_depth"], row["n_seqs"]) for row in rows]
    assert tests == [
        (3, 0, 0, 1),
        (20, 0, 0, 1),
        (3, 0, 7, 1),
        (20, 0, 7, 1),
        (0, 2, 0, 1),
        (0, 2, 0, 3),
        (0, 2, 7, 1),
        (0, 2, 7, 3),
    ]


def test_the_numbers_agree(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    begin = time.perf_counter_ns()
    rows = report([tiny, *SHORT, "-p", "40", "-n", "6", "-b", "2", "-r", "3"], capsys)
    took = time.perf_counter_ns() - begin
    assert 0 < sum(sum(row["samples_ns"]) for row in rows) < took
    for row, tokens in zip(rows, (40, 12), strict=True):
        assert row.keys() >= LLAMA_BENCH_KEYS
        assert row["samples_ts"] == pytest.approx([tokens * 1e9 / t for t in row["samples_ns"]])
        assert row["avg_ts"] == pytest.approx(statistics.mean(row["samples_ts"]))
        assert row["stddev_ts"] == pytest.approx(statistics.stdev(row["samples_ts"]))
        assert row["avg_ns"] == pytest.approx(statistics.mean(row["samples_ns"]), abs=1)
        assert len(row["samples_ns"]) == 3
        assert row["model_filename"] == tiny
        assert row["model_type"].startswith("llama ") and row["model_type"].endswith(" Q8_0")
        assert row["share_of_read"] is None
    decode = rows[1]
    seconds_per_step = decode["avg_ns"] / 6e9
    assert decode["weight_gbs"] == pytest.approx(decode["weight_bytes"] / seconds_per_step / 1e9)
    assert decode["gmacs"] > 0


def test_cache_types_are_reported(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = report([tiny, *SHORT, "-n", "0", "--kv-cache-type", "f16/f32"], capsys)[0]
    assert (row["type_k"], row["type_v"], row["backends"]) == ("f16", "f32", "reference")


def test_other_reports(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", tiny, *SHORT, "-d", "4", "-b", "2"]
    assert cli.main([*words, "-o", "csv"]) == 0
    prompt, writing = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (prompt["n_prompt"], writing["n_gen"], writing["n_seqs"]) == ("5", "2", "2")
    assert "samples_ns" not in prompt
    assert cli.main([*words, "-o", "md"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and len({line.count("|") for line in lines}) == 1
    assert "| pp5 @ d4 |" in lines[2] and "| tg2 x 2 @ d4 |" in lines[3]
    assert cli.main(words) == 0
    assert capsys.readouterr().out.splitlines()[2].split("\t")[3] == "tg2 x 2 @ d4"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-p", "0", "-n", "0"], "nothing to do"),
        (["-p", "many"], "'many'"),
        (["-p", "1,,2"], "''"),
        (["-b", "0"], "expected 1 to"),
        (["-p", "9" * 5000], "expected 0 to"),
        (["-b", "1000"], "1 to 256 is expected"),
        (["--roofline"], "not on reference"),
        (["--kv-cache-type", "f64"], "f64"),
        (["-d", "16777216"], "smaller context"),
    ],
)
def test_what_cannot_be_asked(
    tiny: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", tiny, *SHORT, *words]) in (1, 2)
    seen = capsys.readouterr()
    assert seen.out == "" and said in seen.err and "Traceback" not in seen.err


def test_sequences_that_do_not_fit_together_are_refused(tiny: str) -> None:
    with open_gguf(Path(tiny)) as file:
        weights = sum(tensor.nbytes for tensor in file.tensors.values())
    one = 2 * KV_HEADS * HEAD_DIM * LAYERS * 4 * 1280  # bytes of a context in f32
    options = LoadOptions(backend="reference", memory_limit=weights + 3 * one)
    for n_seqs in (1, 2):
        tests = [Workload(0, 1, n_depth=1280 - 1 - BLOCK_SIZE, n_seqs=n_seqs)]
        with ExitStack() as stack:
            if n_seqs == 2:
                stack.enter_context(pytest.raises(BackendError, match="hold 2 sequences of 1280"))
            stack.enter_context(opened(Path(tiny), options, tests, False, print))


@pytest.mark.weights
def test_smollm2_against_a_plain_read(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(smollm2), "-p", "16", "-n", "4", "-r", "2", "--roofline", "--backend", "cpu"]
    prompt, writing = report(words, capsys)
    assert prompt["share_of_read"] is None and prompt["read_gbs"] is None
    assert 0 < writing["share_of_read"] < 2  # a busy machine may slow either
    assert 0.5 < writing["weight_bytes"] / writing["model_size"] <= 1
    assert writing["read_gbs"] > 0
