"""Plain downloads: resumed, started over, refused."""

import errno
import shutil
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from edgellm.errors import DownloadError
from edgellm.pull import url
from edgellm.pull.report import SourceFailed
from edgellm.sources import UrlSource
from tests.pull.conftest import CONTENT, Recorder, Server


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "whole"


def fetch(server: Server, target: Path, recorder: Recorder) -> None:
    assert url.fetch_url(UrlSource(f"{server.address}/m.gguf"), target, recorder) is None


def test_a_download_is_whole_and_told(server: Server, target: Path, recorder: Recorder) -> None:
    fetch(server, target, recorder)
    assert target.read_bytes() == CONTENT
    assert recorder.steps[-1] == ("downloading", len(CONTENT), len(CONTENT))


def test_a_secret_does_not_go_where_the_server_points(
    server: Server, target: Path, recorder: Recorder
) -> None:
    server.points_to = [f"{server.address}/elsewhere"]
    secret = {"Authorization": "Bearer x"}
    url.download(f"{server.address}/m.gguf", secret, target, recorder)
    assert [asked.get("Authorization") for asked in server.asked] == ["Bearer x", None]
    assert target.read_bytes() == CONTENT


def test_a_lost_connection_is_taken_up_again(
    server: Server, target: Path, recorder: Recorder
) -> None:
    server.drop_after = [1000, 5000, 70000]
    fetch(server, target, recorder)
    assert target.read_bytes() == CONTENT
    assert [a.get("Range") for a in server.asked] == [
        None,
        "bytes=1000-",
        "bytes=6000-",
        "bytes=76000-",
    ]


def test_a_later_try_goes_on_where_this_one_stopped(
    server: Server, target: Path, recorder: Recorder
) -> None:
    server.drop_after = [1000, 0, 0, 0]
    with pytest.raises(SourceFailed, match="connection fails"):
        fetch(server, target, recorder)
    assert target.read_bytes() == CONTENT[:1000]
    fetch(server, target, recorder)
    assert target.read_bytes() == CONTENT
    assert server.asked[-1]["Range"] == "bytes=1000-"


def test_a_changed_file_starts_over(server: Server, target: Path, recorder: Recorder) -> None:
    server.drop_after = [1000, 0, 0, 0]
    with pytest.raises(SourceFailed):
        fetch(server, target, recorder)
    server.content, server.etag = b"GGUF" + b"new" * 500, '"two"'
    fetch(server, target, recorder)
    assert target.read_bytes() == server.content


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_strong_tag_nothing_is_resumed(
    etag: str | None, server: Server, target: Path, recorder: Recorder
) -> None:
    server.etag, server.drop_after = etag, [1000]
    fetch(server, target, recorder)
    assert target.read_bytes() == CONTENT
    assert [a.get("Range") for a in server.asked] == [None, None]


def test_a_server_without_ranges_starts_over(
    server: Server, target: Path, recorder: Recorder
) -> None:
    server.ranges, server.drop_after = False, [1000, 2000]
    fetch(server, target, recorder)
    assert target.read_bytes() == CONTENT


def test_a_range_from_the_wrong_place_is_refused(
    server: Server, target: Path, recorder: Recorder
) -> None:
    server.drop_after, server.range_offset = [1000], 1
    with pytest.raises(SourceFailed, match="1000- were asked for"):
        fetch(server, target, recorder)
    assert target.read_bytes() == CONTENT[:1000]


def test_a_finished_file_is_not_asked_for_again(
    server: Server, target: Path, recorder: Recorder
) -> None:
    for says_length in (True, False):
        server.says_length = says_length
        server.asked.clear()
        target.unlink(missing_ok=True)
        fetch(server, target, recorder)
        fetch(server, target, recorder)
        assert target.read_bytes() == CONTENT
        assert len(server.asked) == 1


def test_a_beginning_that_the_server_no_longer_has_is_dropped(
    server: Server, target: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.drop_after = [1000, 0, 0, 0]
    with pytest.raises(SourceFailed):
        fetch(server, target, recorder)
    real = url._start
    answers = iter([416])

    def once(answer: Any, have: int) -> int:
        if next(answers, None):
            raise HTTPError("", 416, "", answer.headers, answer)
        return real(answer, have)

    monkeypatch.setattr(url, "_start", once)
    fetch(server, target, recorder)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("status", [401, 404, 416, 500])
def test_a_refusal_is_told(status: int, server: Server, target: Path, recorder: Recorder) -> None:
    server.status = status
    with pytest.raises(SourceFailed, match=str(status)):
        fetch(server, target, recorder)
    assert len(server.asked) == 1


def test_an_unreachable_server_is_given_up_at_once(target: Path, recorder: Recorder) -> None:
    source = UrlSource("http://127.0.0.1:1/m.gguf")
    with pytest.raises(SourceFailed, match="connection fails"):
        url.fetch_url(source, target, recorder)
    assert not target.exists()


def test_a_full_disk_says_so_and_keeps_what_fits(
    server: Server, target: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(url, "BLOCK", 1000)
    real_open = Path.open

    class Full:
        """A file on a disk that takes 2500 bytes."""

        def __init__(self, file: Any) -> None:
            self.file, self.room = file, 2500

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

        def write(self, block: bytes) -> None:
            self.room -= len(block)
            if self.room < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.file.write(block)

        def flush(self) -> None:
            self.file.flush()

    def open_full(path: Path, mode: str = "r", *args: Any, **kw: Any) -> Any:
        file = real_open(path, mode, *args, **kw)
        return Full(file) if mode in ("ab", "wb") else file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_full)
        with pytest.raises(DownloadError, match="disk is full.*run the same command again"):
            fetch(server, target, recorder)
    assert target.read_bytes() == CONTENT[:2000]
    fetch(server, target, recorder)
    assert target.read_bytes() == CONTENT
    assert server.asked[-1]["Range"] == "bytes=2000-"


def test_a_file_that_cannot_fit_is_not_begun(
    server: Server, target: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(target.parent)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    with pytest.raises(DownloadError, match="not enough room"):
        fetch(server, target, recorder)
    assert not target.exists()


def test_a_folder_that_cannot_be_written_is_the_disks_fault(
    server: Server, target: Path, recorder: Recorder
) -> None:
    target.mkdir()
    with pytest.raises(DownloadError, match="cannot be written"):
        fetch(server, target, recorder)
