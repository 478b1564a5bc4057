"""Files named with @ in a prompt."""

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from edgellm.errors import RequestError
from edgellm.tui import attachments
from edgellm.tui.attachments import Attachment, attach, detach, mention, mentions, pasted_path
from edgellm.tui.widgets import completions


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src" / ".git").mkdir(parents=True)
    (tmp_path / "src" / ".git" / "config").write_text("hidden")
    (tmp_path / "src" / "b.py").write_text("b = 2\n")
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    (tmp_path / "src" / "logo.png").write_bytes(b"\x89PNG\xff\x00")
    (tmp_path / "my notes.txt").write_text("notes </file> & more")
    (tmp_path / "big.txt").write_text("x" * (attachments.MAX_BYTES + 1))
    return tmp_path


def test_mentions_are_those_that_exist() -> None:
    text = 'see @src/a.py, @src. and @"my notes.txt"; mail me@src @home @src/a.py'
    assert mentions(text) == ["src/a.py", "src", "my notes.txt"]


@pytest.mark.parametrize("word", ["x" * 5000, "~no-such-user/x", "~no-such-user/", "a\0b"])
def test_a_word_that_can_be_no_path_is_text(word: str) -> None:
    assert mentions(f"@{word} and so on") == []
    assert pasted_path(f"./{word}") is None and pasted_path(word) is None
    assert not list(completions._paths(word))


def test_a_message_carries_files_and_gives_them_back() -> None:
    content = attach('compare @src/ and @"my notes.txt"')
    said, files = detach(content)
    assert said == 'compare @src/ and @"my notes.txt"'
    assert files[:2] == [Attachment("src/a.py", "a = 1"), Attachment("src/b.py", "b = 2")]
    assert "hidden" not in content and "PNG" not in content
    assert detach("no files") == ("no files", [])


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("@big.txt", "more than 1 MiB"),
        ("@src/logo.png", "image png, but only text"),
        ("@src/.git/empty", "no text files"),
        ("@pipe", "no plain file"),
    ],
)
def test_what_cannot_be_attached_is_told(folder: Path, prompt: str, says: str) -> None:
    (folder / "src" / ".git" / "empty").mkdir()
    os.mkfifo(folder / "pipe")
    with pytest.raises(RequestError, match=says):
        attach(prompt)


def test_the_home_of_nobody_is_no_file() -> None:
    with pytest.raises(RequestError, match="~nosuchuser"):
        attachments.read("~nosuchuser/x")


def test_all_files_together_have_a_limit(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).write_text("x" * (attachments.MAX_BYTES * 2 // 3))
    with pytest.raises(RequestError, match="@one, @two: more than"):
        attach("@one @two")


def test_pasted_paths(folder: Path) -> None:
    here = str(folder / "src" / "a.py")
    assert pasted_path(here) == pasted_path(f"file://{here}") == pasted_path(f"'{here}' ") == here
    assert pasted_path(str(folder / "my notes.txt").replace(" ", "\\ ")) is not None
    for text in ("src/a.py", "/no/such", "two\nlines", "", "/" + "x" * 5000, "/\0"):
        assert pasted_path(text) is None
    assert mention("a b") == '@"a b"' and mention("a.py") == "@a.py"


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    said, files = detach(text)
    assert files or said == text
