"""`edgellm run` with a scripted model, and on SmolLM2 where it is there."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgellm import cli
from edgellm.types import LoadOptions
from tests.cli.scripted import Script
from tests.mock_model import noise
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


def prompt_tokens(capsys: pytest.CaptureFixture[str]) -> int:
    count: int = json.loads(capsys.readouterr().out)["usage"]["prompt_tokens"]
    return count


def test_the_answer_and_nothing_else(
    script: Script, model_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script()
    assert cli.main(["run", model_file, "Why?", "--temperature", "0"]) == 0
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("The sky is blue.", "")


def test_options_may_stand_anywhere(
    script: Script, model_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["run", model_file, "-n", "3", "--raw", "--temperature", "0", "Why?"],
        ["run", "-n", "3", "--raw", model_file, "Why?", "--temperature", "0"],
        ["run", model_file, "--temperature", "0", "-n3", "--raw", "--", "-Why?"],
    ):
        script()
        assert cli.main(words) == 0
        assert capsys.readouterr().out == "The"


def test_a_chat_template_unless_raw(
    script: Script, model_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["run", model_file, "hi", "--temperature", "0", "--json"]
    template = len("<bos>") - 4 + len("user:hi\nassistant:")
    for more, expected in (
        ([], template),
        (["--system", "Be kind."], template + len("system:Be kind.\n")),
        (["--raw"], 1 + len("hi")),
    ):
        script()
        assert cli.main([*common, *more]) == 0
        assert prompt_tokens(capsys) == expected


def test_the_same_command_gives_the_same_text(
    script: Script, model_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*more: str) -> str:
        script(logits=noise)
        words = ["run", model_file, "hi", "--raw", "-n", "40", "--temperature", "5", *more]
        assert cli.main(words) == 0
        return capsys.readouterr().out

    assert said() == said() == said("--seed", "0")
    assert len({said(), said("--seed", "1"), said("--seed", "random")}) == 3


@pytest.mark.parametrize("text", [b"hello", b"hello\n"])
def test_the_prompt_from_standard_input_or_a_file(
    script: Script, model_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes
) -> None:
    common = ["run", model_file, "--raw", "--json"]
    script(stdin=text)
    assert cli.main(common) == 0
    assert prompt_tokens(capsys) == 6
    (tmp_path / "prompt.txt").write_bytes(text)
    script()
    assert cli.main([*common, "--file", str(tmp_path / "prompt.txt")]) == 0
    assert prompt_tokens(capsys) == 6


def test_json_has_the_whole_completion(
    script: Script, model_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script("né")
    words = ["run", model_file, "hi", "--temperature", "0", "--logprobs", "1", "--json"]
    assert cli.main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["text"] == "né"
    assert report["token_ids"] == [*"né".encode(), 256]
    assert report["finish_reason"] == "stop"
    assert [entry["token_id"] for entry in report["logprobs"]] == report["token_ids"]
    assert report["usage"]["completion_tokens"] == 4
    assert report["timings"].keys() == {"queued", "first_token", "decode"}
    assert "others" not in report


def test_load_options_reach_the_engine(script: Script, model_file: str) -> None:
    model = script()
    words = "--context 32 --threads 2 --backend reference --kv-cache-type f16/f32 --memory 1.5G"
    assert cli.main(["run", model_file, "hi", *words.split()]) == 0
    assert model.asked == (
        model_file,
        LoadOptions(
            backend="reference",
            threads=2,
            context_length=32,
            kv_cache_type="f16/f32",
            max_num_seqs=1,
            memory_limit=3 << 29,
        ),
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--json-schema", "@SCHEMA"], '{"on": true}'),
        (["--regex", "[0-9]{2}"], "00"),
        (["--choices", "yes", "--choices", "no"], "no"),
        (["--grammar", 'root ::= "n" .'], "no"),
        (["--logit-bias", "110-inf", "--logit-bias", "n+1", "-n", "2"], "no"),
        (["--logit-bias", "n+1", "--logit-bias", "110-inf", "-n", "2"], "\0o"),
        (["--samplers", "top_k;temperature", "--beam-width", "2"], "no"),
        (["--ignore-eos", "-n", "3"], "no\0"),
    ],
)
def test_sampling_options_reach_the_engine(
    script: Script,
    model_file: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    text: str,
) -> None:
    script("no")
    schema = {"type": "object", "properties": {"on": {"const": True}}, "required": ["on"]}
    (tmp_path / "schema.json").write_text(json.dumps({**schema, "additionalProperties": False}))
    words = [word.replace("SCHEMA", str(tmp_path / "schema.json")) for word in words]
    assert cli.main(["run", model_file, "hi", "--temperature", "0", *words]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "edgellm chat"),
        (["hi", "--dry-allowed-length", "-5"], "dry_allowed_length is -5"),
        (["hi", "--temperature", "nan"], "temperature is nan"),
        (["hi", "--samplers", "top_k;heat"], "samplers"),
        (["hi", "--logit-bias", "999+1"], "logit_bias names token 999"),
        (["hi", "--grammar", "root ::= ("], "grammar: line 1"),
        (["hi", "--json-schema", '{"not": {}}'], "'not'"),
        (["hi", "--regex", "@no-such-file"], "no-such-file"),
        (["hi", "--file", "x"], "twice"),
        (["hi", "--raw", "--system", "x"], "--system"),
        (["hi", "--top-p", "7"], "top_p"),
        (["hi", "-n", "-4"], "max_tokens"),
        (["hi", "--seed", "x"], "expected a whole number, or random"),
        (["hi", "--seed", "-1"], "expected a whole number, or random"),
        (["hi", "--seed", str(2**64)], "seed is"),
        ([""], "the prompt is empty"),
        (["a\udcff"], "PROMPT is not UTF-8 text: byte 1"),
        (["hi", "--memory", "much"], "size"),
        (["hi", "--gpu-layers", "x"], "expected a whole number, or auto"),
        (["x" * 64], "64"),
        (["--file", "no-such-file.txt"], "no-such-file.txt"),
        (["hi", "there"], "unrecognized arguments: there"),
    ],
)
def test_bad_usage_is_2_and_says_what(
    script: Script,
    model_file: str,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    script()
    assert cli.main(["run", model_file, *words]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert said in seen.err and "Traceback" not in seen.err


def test_input_that_is_not_text_is_refused(
    script: Script, model_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script(stdin=b"ab\xff")
    assert cli.main(["run", model_file]) == 2
    assert "standard input is not UTF-8 text: byte 2" in capsys.readouterr().err


def test_a_text_without_end_is_refused(
    script: Script,
    model_file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("edgellm.cli.options._MAX_TEXT", 1 << 20)
    for words, stdin in ((["--file", "/dev/zero"], None), ([], b"x" * (1 << 20) + b"x")):
        script(stdin=stdin)
        assert cli.main(["run", model_file, *words]) == 2
        assert "has more than 1 MiB" in capsys.readouterr().err


def test_an_unknown_model_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "no-such-model", "hi"]) == 2
    assert "no-such-model" in capsys.readouterr().err


def test_a_model_cannot_command_the_terminal(
    script: Script,
    model_file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["run", model_file, "hi", "--temperature", "0"]
    script("a\x1b[2J\tb\n")
    assert cli.main(words) == 0
    assert capsys.readouterr().out == "a\x1b[2J\tb\n"  # a pipe gets what the model said
    script("a\x1b[2J\tb\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(words) == 0
    assert capsys.readouterr().out == "a\\x1b[2J\tb\n\n"


PROGRAM = """
import sys
import pytest
from edgellm import cli
from tests.cli.scripted import ScriptedModel
from tests.mock_model import MockModel, says
ScriptedModel(MockModel(says("blue " * 20), delay=0.3)).install(pytest.MonkeyPatch())
sys.exit(cli.main(["run", sys.argv[1], "hi", "--raw", "--temperature", "0"]))
"""


def started(model_file: str, **more: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, model_file],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **more,
    )


def test_ctrl_c_in_an_answer_ends_with_130(model_file: str) -> None:
    process = started(model_file)
    try:
        assert process.stdout is not None
        assert process.stdout.read(4) == "blue"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (130, "")
    finally:
        process.kill()


def test_a_reader_that_leaves_ends_the_answer_silently(model_file: str) -> None:
    process = started(model_file)
    assert process.stdout is not None and process.stderr is not None
    try:
        process.stdout.read(4)
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=PATIENCE) == 141
    finally:
        process.stderr.close()
        process.kill()


@pytest.mark.weights
def test_smollm2_prints_paris(smollm2: Path) -> None:
    words = [str(smollm2), "-n", "1", "--raw", "The capital of France is"]
    program = "import sys; from edgellm.cli import main; code = main(sys.argv[1:]);"
    program += "print({'numba', 'asyncio'} & {*sys.modules}, file=sys.stderr); sys.exit(code)"
    for _ in range(2):  # the first may have to compile
        done = subprocess.run(
            [sys.executable, "-c", program, "run", *words],
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=True,
        )
        assert done.stdout == " Paris"
    assert done.stderr == "set()\n"
