"""`edgellm run` with a model that thinks before it answers."""

import json
import re
import sys
from collections.abc import Callable

import pytest

from edgellm import cli
from tests.cli.scripted import Script

SOURCE = "<think></think>"  # what a template of such a model has somewhere
THOUGHT = "<think>\nSo.\n</think>\n\nYes."
Ask = Callable[..., tuple[str, str]]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def ask(script: Script, model_file: str, capsys: Capture) -> Ask:
    """What is said to standard output and to standard error."""

    def asked(*words: str, text: str = THOUGHT, source: str = SOURCE) -> tuple[str, str]:
        script(text, source=source)
        assert cli.main(["run", model_file, "hi", "--temperature", "0", *words]) == 0
        return capsys.readouterr()

    return asked


def undimmed(text: str) -> str:
    """The text, each piece of which is dim and leaves the terminal plain."""
    pieces = re.split("\x1b\\[2m(.*?)\x1b\\[0m", text)
    assert len(pieces) > 2 and pieces[0] == ""
    return "".join(pieces)


def test_a_pipe_gets_the_answer_alone(ask: Ask) -> None:
    assert ask() == ("Yes.", "")
    assert ask("--reasoning", "hide") == ("Yes.", "")
    assert ask("--reasoning", "show") == ("Yes.", "So.\n\n")


def test_a_person_sees_it_dim(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    out, err = ask()
    assert (out, undimmed(err)) == ("Yes.\n", "So.\n\n")
    assert ask("--reasoning", "hide") == ("Yes.\n", "")
    assert undimmed(ask(text="<think>a\x1b[2Jb</think>c")[1]) == "a\\x1b[2Jb\n\n"


def test_json_has_it_apart(ask: Ask) -> None:
    report = json.loads(ask("--json")[0])
    assert (report["text"], report["reasoning"]) == ("Yes.", "So.")


def test_an_answer_that_never_comes_is_said(ask: Ask) -> None:
    out, err = ask("-n", "9")
    assert out == "" and "-n" in err
    assert json.loads(ask("-n", "9", "--json")[0])["reasoning"] == "S"
    out, err = ask(text="<think>So.")
    assert out == "" and "-n" not in err and "--thinking off" in err


def test_what_only_looks_like_it_is_text(ask: Ask) -> None:
    assert ask(source="") == (THOUGHT, "")
    assert ask(text="I <think> not.") == ("I <think> not.", "")
    assert ask("--raw") == (THOUGHT, "")


def test_thinking_needs_a_switch(script: Script, model_file: str, capsys: Capture) -> None:
    script("Yes.", source="no switch")
    assert cli.main(["run", model_file, "hi", "--thinking", "off"]) == 2
    assert "has no switch for thinking" in capsys.readouterr().err
    script("Yes.", source="{% if enable_thinking %}on{% endif %}")
    assert cli.main(["run", model_file, "hi", "--thinking", "off"]) == 0
    assert cli.main(["run", model_file, "hi", "--thinking", "off", "--raw"]) == 2
