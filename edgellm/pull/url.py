"""Downloads over http, resumed where the server can tell that the file is still the same.

Beside `target` lies `target.tag` with what identifies the file at the server. A download goes on
where it stopped only with `If-Range` of that tag, so bytes of two versions never meet in one file.
"""

import http
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from edgellm.pull.disk import BLOCK, disk_errors, require_room
from edgellm.pull.report import Report, SourceFailed
from edgellm.sources import UrlSource

TIMEOUT = 15.0  # seconds to connect, and between two blocks
ATTEMPTS = 3  # connections in a row that may bring nothing
PAUSE = 1.0  # seconds before the next one
_NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, OSError)


@dataclass(frozen=True)
class _Tag:
    """What the server said of the file: its strong ETag or date, and its length in bytes."""

    validator: str | None
    total: int | None


def fetch_url(source: UrlSource, target: Path, report: Report) -> str | None:
    """Downloads into `target`; a plain server vouches for no digest."""
    download(source.url, {}, target, report)
    return None


def download(url: str, headers: Mapping[str, str], target: Path, report: Report) -> None:
    """Completes `target`. A lost connection is taken up again while it brings bytes.

    Raises SourceFailed (partial file kept for the next try) and DownloadError of the disk.
    """
    idle = 0
    while True:
        before = _length(target)
        try:
            return _continue(url, headers, target, report)
        except urllib.error.HTTPError as error:
            error.close()
            if not before or error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise SourceFailed(f"the server answers {error.code} {error.reason}") from None
            target.unlink()  # what we have is no beginning of what is there now
        except _NETWORK_ERRORS as error:
            idle = 0 if _length(target) > before else idle + 1
            # A server never reached at all is given up at once: the next source is the better bet.
            if idle == ATTEMPTS or _length(target) == 0:
                reason = getattr(error, "reason", None) or error
                raise SourceFailed(f"the connection fails: {reason}") from error
            time.sleep(PAUSE)


def _continue(url: str, headers: Mapping[str, str], target: Path, report: Report) -> None:
    tag_path = target.with_name(target.name + ".tag")
    tag, have = _read_tag(tag_path), _length(target)
    if tag is not None and have == tag.total:
        return
    asked = {"Accept-Encoding": "identity", "User-Agent": "edgellm"}
    if have and tag is not None and tag.validator:
        asked |= {"Range": f"bytes={have}-", "If-Range": tag.validator}
    request = urllib.request.Request(url, headers=asked)
    for name, value in headers.items():  # secrets of this server: not for where it may point to
        request.add_unredirected_header(name, value)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        start = _start(answer, have)
        tag = _Tag(_validator(answer.headers), _total(answer, start))
        if tag.total is not None:
            require_room(target.parent, tag.total - start)
        with disk_errors(target):
            _write_tag(tag_path, tag)
            out = target.open("ab" if start else "wb")
        with out:
            done = start
            while block := answer.read1(BLOCK):  # as it comes: an interruption loses nothing
                with disk_errors(target):
                    out.write(block)
                    out.flush()
                done += len(block)
                report.advance("downloading", done, tag.total)
    if tag.total is not None and done != tag.total:
        raise http.client.IncompleteRead(b"", tag.total - done)
    with disk_errors(target):
        _write_tag(tag_path, replace(tag, total=done))


def _start(answer: Any, have: int) -> int:
    """The offset of the answer's first byte: where we stopped, or 0 for the whole file."""
    if answer.status != 206:
        return 0
    unit, _, span = answer.headers.get("Content-Range", "").partition(" ")
    if unit != "bytes" or not span.startswith(f"{have}-"):
        raise SourceFailed(f"the server sends bytes {span!r} where {have}- were asked for")
    return have


def _total(answer: Any, start: int) -> int | None:
    length = answer.headers.get("Content-Length", "")
    return start + int(length) if length.isdecimal() else None


def _validator(headers: Mapping[str, str]) -> str | None:
    etag = headers.get("ETag")
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")


def _write_tag(path: Path, tag: _Tag) -> None:
    path.write_text(json.dumps(asdict(tag)))


def _read_tag(path: Path) -> _Tag | None:
    try:
        return _Tag(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
