"""The frame of the command line: exit codes, errors, laziness, pipes."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from edgellm import cli, errors
from edgellm.cli.examples import EXAMPLES
from edgellm.version import __version__
from tests.waiting import PATIENCE

HEAVY = ("numba", "llvmlite", "textual", "jinja2", "pyopencl", "numpy", "huggingface_hub", "rich")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Installs a command `probe` that calls the function given."""

    def install(body: Callable[[], int]) -> None:
        module = ModuleType("edgellm_probe_command")
        module.add_arguments = lambda parser: None  # type: ignore[attr-defined]
        module.run = lambda args: body()  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(cli.COMMANDS, "probe", (module.__name__, "a probe"))

    return install


def raising(error: BaseException) -> Callable[[], int]:
    def body() -> int:
        raise error

    return body


def speaking(text: str) -> str:
    """A program whose command prints the Python expression `text`."""
    return (
        "import sys, types; from edgellm import cli;"
        "m = types.ModuleType('speaker'); m.add_arguments = lambda parser: None;"
        f"m.run = lambda args: print({text}) or 0; sys.modules['speaker'] = m;"
        "cli.COMMANDS['speak'] = ('speaker', ''); sys.exit(cli.main(['speak']))"
    )


def test_help_lists_every_command_and_loads_nothing_heavy() -> None:
    program = (
        "import sys; from edgellm.cli import main; code = main(['--help']);"
        f"print('loaded', [m for m in {HEAVY!r} if m in sys.modules], code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "loaded [] 0" in done.stdout
    for name in cli.COMMANDS:
        assert f"    {name} " in done.stdout


def test_only_the_command_named_is_imported(
    monkeypatch: pytest.MonkeyPatch, command: Callable[[Callable[[], int]], None]
) -> None:
    command(lambda: 0)
    for name in list(cli.COMMANDS):
        if name != "probe":
            monkeypatch.setitem(cli.COMMANDS, name, ("edgellm.no_such_module", "broken"))
    assert cli.main(["--debug", "probe"]) == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"edgellm {__version__}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["probe", "--nonsense"], []])
def test_bad_usage_is_2(
    arguments: list[str],
    command: Callable[[Callable[[], int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(lambda: 0)
    assert cli.main(arguments) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "usage: edgellm" in seen.err


def test_a_word_too_many_shows_how_the_command_is_used(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["list", "--nonsense", "3"]) == 2
    seen = capsys.readouterr().err
    assert seen.startswith("usage: edgellm list") and "unrecognized arguments: --nonsense 3" in seen


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (errors.GGUFError("broken file"), 2, "edgellm: broken file\n"),
        (errors.CatalogError("no such model"), 2, "edgellm: no such model\n"),
        (errors.DownloadError("unreachable"), 1, "edgellm: unreachable\n"),
        (errors.RequestError("too hot", field="temperature"), 2, "edgellm: too hot\n"),
        (errors.BackendError("no AVX2"), 1, "edgellm: no AVX2\n"),
        (FileNotFoundError(2, "No such file", "a.txt"), 2, "edgellm: a.txt: No such file\n"),
        (OSError(28, "No space left"), 1, "edgellm: No space left\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_one_line_and_a_code(
    error: BaseException,
    code: int,
    said: str,
    command: Callable[[Callable[[], int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(raising(error))
    assert cli.main(["probe"]) == code
    assert capsys.readouterr().err == said


def test_a_traceback_only_with_debug(
    command: Callable[[Callable[[], int]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    command(raising(ValueError("surprise")))
    assert cli.main(["probe"]) == 1
    plain = capsys.readouterr().err
    assert plain.startswith("edgellm: ValueError: surprise") and "Traceback" not in plain
    for arguments in (["probe", "--debug"], ["--debug", "probe"]):
        assert cli.main(arguments) == 1
        assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("buffering", ["", "1"])
def test_a_reader_that_leaves_is_no_error(buffering: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", speaking("'some text'")],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": buffering},
        )
    finally:
        os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.parametrize("closed", [1, 2])
def test_a_stream_closed_before_the_start_gets_nothing(closed: int) -> None:
    program = f"import os; os.close({closed}); os.execv(sys.executable, sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", "import sys;" + program, sys.executable, "-c", speaking("'text'")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "" if closed == 1 else "text\n", "")


def test_what_goes_wrong_is_not_said_on_standard_output() -> None:
    program = "import os, sys; os.close(2); os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-m", "edgellm", "rm", "../x"]
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")


def test_ctrl_c_ends_a_running_command_with_130(tmp_path: Path) -> None:
    (tmp_path / "slow_command.py").write_text(
        "import time\n"
        "def add_arguments(parser): pass\n"
        "def run(args):\n    print('started', flush=True)\n    time.sleep(3600)\n    return 0\n"
    )
    program = (
        "import sys; from edgellm import cli;"
        "cli.COMMANDS['slow'] = ('slow_command', ''); sys.exit(cli.main(['slow']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert err == ""
    finally:
        process.kill()


def test_text_the_terminal_cannot_show_is_escaped() -> None:
    done = subprocess.run(
        [sys.executable, "-c", speaking("'a\\udcff\\u00e9'")],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert done.stdout == b"a\\udcff\\xe9\n"


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert f"usage: edgellm {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_examples_of_every_command_can_be_run(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module(cli.COMMANDS[name][0]), "run", lambda args: 0)
    for line in EXAMPLES[name]:
        program, command, *words = shlex.split(line.rpartition("| ")[2])
        assert (program, command) == ("edgellm", name)
        assert cli.main([command, *words]) == 0, line
    assert cli.main([name, "--help"]) == 0
    assert capsys.readouterr().out.endswith(f"  {EXAMPLES[name][-1]}\n")


def test_a_mistyped_option_is_told_what_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "smollm2", "--temprature=1", "--zzz", "hi"]) == 2
    assert capsys.readouterr().err.endswith("--temprature=1 --zzz hi (near: --temperature)\n")


def test_a_mistyped_command_is_told_what_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lst", "--json"]) == 2
    said = capsys.readouterr().err
    assert said.endswith("there is no command 'lst' (near: list): edgellm --help lists all\n")


@pytest.mark.parametrize("place", range(4))
def test_debug_may_stand_anywhere(place: int, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval", "choice", "model.gguf", "nowhere.jsonl"]
    assert cli.main([*words[:place], "--debug", *words[place:]]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["quantize", "nosuch", "--type", "Q8_0", "out.gguf"], "'nosuch'"),
        (["fit", "smollm2", "--json", "nosuch"], "'nosuch'"),
        (["rm", "--debug", "nosuch", "--debug", "other"], "'nosuch'"),
        (["eval", "table", "a", "--json", "b"], "nothing to measure"),
    ],
)
def test_options_may_stand_between_words(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    assert said in capsys.readouterr().err
