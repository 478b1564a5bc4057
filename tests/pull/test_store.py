"""What pull has stored: replaced, kept apart from the user's own, removed."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgellm.catalog import CatalogEntry
from edgellm.errors import CatalogError, DownloadError
from edgellm.pull import (
    pull,
    remove,
    store,
    stored,
    stored_models,
)
from edgellm.sources import UrlSource
from tests.pull.conftest import CONTENT, SHA, Server, partial_files


def test_a_replaced_model_leaves_its_readers_the_old_bytes(
    entry: CatalogEntry, server: Server
) -> None:
    path = pull(entry)
    with path.open("rb") as reader:
        server.content = b"GGUF a new version"
        server.etag = '"two"'
        new = hashlib.sha256(server.content).hexdigest()
        assert pull(replace(entry, sha256=new)) == path
        assert path.read_bytes() == server.content
        assert reader.read() == CONTENT


@pytest.mark.parametrize(("owner", "step"), [(store, "settle"), (os, "replace")])
def test_a_crash_at_the_end_never_shows_a_wrong_model(
    owner: Any, step: str, entry: CatalogEntry, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(owner, step)
    for fatal in (1, 2, 3):
        calls = iter(range(1, 100))

        def crash(*args: Any, fatal: int = fatal, calls: Iterator[int] = calls) -> None:
            if next(calls) == fatal:
                raise KeyboardInterrupt
            real(*args)

        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(owner, step, crash)
            pull(entry)
        found = stored("model")
        assert found is None or found.path.read_bytes() == CONTENT
        assert pull(entry).read_bytes() == CONTENT
        remove("model")


def test_a_file_of_the_users_own_is_never_touched(
    entry: CatalogEntry, home: Path, server: Server
) -> None:
    own = home / "models/model.gguf"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"mine")
    with pytest.raises(CatalogError, match="was not stored by pull"):
        pull(entry)
    with pytest.raises(CatalogError, match="was not stored by pull"):
        remove("model")
    assert own.read_bytes() == b"mine"
    assert server.asked == []


def test_a_file_that_came_during_the_download_is_not_touched(
    entry: CatalogEntry, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = home / "models/model.gguf"
    monkeypatch.setattr("edgellm.pull.sha256_of", lambda *_: own.write_bytes(b"mine") and SHA)
    with pytest.raises(CatalogError, match="was not stored by pull"):
        pull(entry)
    assert own.read_bytes() == b"mine"


def test_remove_deletes_what_pull_stored_and_nothing_else(entry: CatalogEntry, home: Path) -> None:
    path = pull(entry)
    other = home / "models/other.gguf"
    other.write_bytes(b"mine")
    assert remove("model") == len(CONTENT)
    assert not path.exists() and stored_models() == []
    assert other.read_bytes() == b"mine"
    with pytest.raises(CatalogError, match="no model 'model' is stored"):
        remove("model")


def test_remove_refuses_a_file_that_was_exchanged(entry: CatalogEntry) -> None:
    path = pull(entry)
    path.write_bytes(b"mine")
    assert stored("model") is None
    with pytest.raises(CatalogError, match="another file was put there"):
        remove("model")
    assert path.read_bytes() == b"mine"


def test_remove_clears_an_unfinished_download(
    entry: CatalogEntry, home: Path, server: Server
) -> None:
    server.drop_after = [1000, 0, 0, 0]
    with pytest.raises(DownloadError):
        pull(entry)
    assert "whole" in partial_files(home)
    assert remove("model") >= 1000
    assert partial_files(home) == []


@pytest.mark.parametrize("name", ["../model", "/etc/passwd", "a/b", "", ".hidden", "x" * 300])
def test_names_cannot_leave_the_folder(name: str, home: Path, server: Server) -> None:
    outside = home / "model.json"
    outside.parent.mkdir()
    outside.write_text(json.dumps({"name": "../model", "size": 1}))
    with pytest.raises(CatalogError):
        remove(name)
    with pytest.raises(CatalogError):
        pull(CatalogEntry(name, ((UrlSource(server.address + "/m"),),)))
    assert outside.exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"name": "model"}', '{"sources": 3}', "\x00", '{"name": "other"}']
)
def test_a_damaged_manifest_means_not_stored(text: str, entry: CatalogEntry, home: Path) -> None:
    pull(entry)
    (home / "models/model.json").write_text(text)
    assert stored("model") is None
    assert stored_models() == []
    with pytest.raises(CatalogError, match="was not stored by pull"):
        pull(entry)
