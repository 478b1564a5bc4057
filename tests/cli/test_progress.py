"""The bar: on a terminal only, and on standard error."""

import io

import pytest

from edgellm.cli.progress import DownloadProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_a_bar_and_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with DownloadProgress() as progress:
        progress.note("first")
        progress.advance("downloading", 50, None)
        progress.advance("downloading", 50, 100)
        progress.note("[bold]as it is[/bold]")
        progress.advance("checking", 100, 100)
        progress.count("compiling kernels", 3, 7)
    seen = screen.getvalue()
    assert "downloading" in seen and "checking" in seen
    assert "compiling kernels" in seen and "3/7" in seen
    assert "edgellm: first" in seen and "[bold]as it is[/bold]" in seen


def test_a_pipe_sees_notes_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with DownloadProgress() as progress:
        progress.advance("downloading", 50, 100)
        progress.count("compiling kernels", 3, 7)
        progress.note("a note")
    assert capsys.readouterr() == ("", "edgellm: a note\n")
