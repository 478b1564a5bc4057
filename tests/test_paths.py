"""Paths as people type them."""

from pathlib import Path

import pytest

from edgellm.paths import typed_file, typed_path


def test_a_home_is_meant_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert typed_path("~/a.gguf") == tmp_path / "a.gguf"
    assert typed_path("~no-such-user/a.gguf") == Path("~no-such-user/a.gguf")


@pytest.mark.parametrize("text", ["", "no-such-file", "x" * 5000, "a\0b", "~no-such-user/a", "."])
def test_what_is_no_file_is_none(text: str) -> None:
    assert typed_file(text) is None


def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    assert typed_file("a") == Path("a")
    assert typed_file(tmp_path / "a") == tmp_path / "a"
