"""Which file a path, a name or a source means."""

from pathlib import Path

import pytest

from edgellm.catalog import CatalogEntry
from edgellm.errors import CatalogError
from edgellm.pull import (
    entry_of,
    pull,
    remove,
    resolve,
)
from edgellm.sources import LocalSource, UrlSource
from tests.pull.conftest import CONTENT, SHA, Recorder, Server


def test_a_local_source_is_used_in_place(home: Path) -> None:
    file = home / "mine.gguf"
    home.mkdir()
    file.write_bytes(CONTENT)
    entry = CatalogEntry("model", ((LocalSource(file),),))
    assert pull(entry) == file
    with pytest.raises(CatalogError, match="no model 'model' is stored"):
        remove("model")
    assert file.exists() and not (home / "models").exists()


def test_where_a_local_file_is_missing_the_next_source_is_tried(
    home: Path, server: Server, recorder: Recorder
) -> None:
    local, url = LocalSource(home / "gone.gguf"), UrlSource(f"{server.address}/m.gguf")
    path = pull(CatalogEntry("model", ((local,), (url,)), sha256=SHA), recorder)
    assert path.read_bytes() == CONTENT
    assert recorder.notes == [f"{local}: no such file; trying the next source"]


def test_resolve_takes_paths_names_and_sources(
    home: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"url:{server.address}/Some.gguf"
    path = resolve(text)
    assert path == home / "models/some.gguf"
    assert resolve("some") == resolve("SOME") == resolve(text) == path
    assert len(server.asked) == 1
    monkeypatch.chdir(path.parent)
    assert resolve("some.gguf") == Path("some.gguf")
    assert resolve(str(path)) == path


def test_resolve_offers_near_names(home: Path) -> None:
    with pytest.raises(CatalogError, match="Near it: smollm2"):
        resolve("smolm2")
    with pytest.raises(CatalogError, match="no such file"):
        resolve("./smollm2")
    with pytest.raises(CatalogError, match="not a file"):
        resolve(str(home.parent))
    with pytest.raises(CatalogError, match="name is empty"):
        resolve("")
    for nowhere in ("~no-such-user/x.gguf", "x" * 5000 + ".gguf"):
        with pytest.raises(CatalogError, match="no such file"):
            resolve(nowhere)
    (home.parent / "own.gguf").write_bytes(b"GGUF")
    with pytest.raises(CatalogError, match="a file of your own"):
        entry_of(str(home.parent / "own.gguf"))
    with pytest.raises(CatalogError, match="`edgellm pull smollm2` fetches it"):
        resolve("smollm2", fetch=False)


def test_a_source_cannot_take_another_models_name(home: Path, server: Server) -> None:
    with pytest.raises(CatalogError, match="--name gives another"):
        entry_of("hf:owner/repo/smollm2.gguf")
    pull(entry_of(f"url:{server.address}/m.gguf"))
    with pytest.raises(CatalogError, match="is stored already, from url:"):
        entry_of("hf:owner/repo/m.gguf")
    assert entry_of("hf:owner/repo/m.gguf", "n").name == "n"
