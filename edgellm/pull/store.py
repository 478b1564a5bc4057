"""What pull has stored: one file and one manifest a model, in `models_dir()`.

    NAME.gguf             the model
    NAME.json             its manifest: name, sources, sha256, size, date, verified_by
    partial/NAME/         what is under way; partial/NAME.lock keeps others out meanwhile

The manifest is on disk before the model takes its name, so a model file without one is the user's
own and is never touched. Knows nothing of sources beyond their text.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from edgellm.catalog import NAME, near_names
from edgellm.config import models_dir
from edgellm.errors import CatalogError
from edgellm.new_file import settle
from edgellm.pull.disk import disk_errors
from edgellm.pull.report import Report


@dataclass(frozen=True)
class Stored:
    """A manifest. size: bytes. date: ISO 8601, UTC.

    verified_by: who said what the sha256 should be, "catalogue" or "hub"; None when nobody did.
    """

    name: str
    sources: tuple[str, ...]
    sha256: str
    size: int
    date: str
    verified_by: str | None

    @property
    def path(self) -> Path:
        return model_path(self.name)


def model_path(name: str) -> Path:
    """Where the model of that name is stored."""
    return models_dir() / f"{_checked(name)}.gguf"


def partial_dir(name: str) -> Path:
    """Where downloads for that name are under way."""
    return models_dir() / "partial" / _checked(name)


def stored(name: str) -> Stored | None:
    """The manifest of a model that is stored and whole; None otherwise."""
    manifest = _read(name)
    return manifest if manifest and _length(manifest.path) == manifest.size else None


def stored_models() -> list[Stored]:
    """All whole stored models by name."""
    names = [p.stem for p in models_dir().glob("*.json") if NAME.fullmatch(p.stem)]
    return [model for name in sorted(names) if (model := stored(name))]


@contextmanager
def lock(name: str, report: Report) -> Iterator[None]:
    """Keeps every other process from the files of `name`; waits its turn."""
    from filelock import FileLock, Timeout

    partial = partial_dir(name)
    guard = FileLock(partial.with_name(f"{name}.lock"))
    with disk_errors(partial):
        try:
            guard.acquire(timeout=0)
        except Timeout:
            report.note(f"another process is at work on {name}: waiting for it")
            guard.acquire(poll_interval=0.1)
    try:
        yield
    finally:
        guard.release()


def keep(manifest: Stored, file: Path) -> Path:
    """Gives a finished file its name. A model of that name gives way: its readers keep the old
    file, which is unlinked and never written. Under lock()."""
    refuse_foreign(manifest.name)
    target, note = manifest.path, _manifest_path(manifest.name)
    with disk_errors(target):
        settle(file)
        draft = file.with_name("manifest")
        draft.write_text(json.dumps(asdict(manifest), indent=1) + "\n")
        settle(draft)
        target.unlink(missing_ok=True)  # before its manifest changes: they never disagree
        os.replace(draft, note)
        os.replace(file, target)
        settle(target.parent)
    return target


def refuse_foreign(name: str) -> None:
    """Raises CatalogError when the model's place is taken by a file that pull did not store."""
    if _read(name) is None and os.path.lexists(model_path(name)):
        raise CatalogError(
            f"{model_path(name)} was not stored by pull: move it away, or use it by its path"
        )


def drop_empty(name: str) -> None:
    """Deletes the folders of downloads that brought nothing."""
    for folder in [*partial_dir(name).glob("*"), partial_dir(name)]:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def require_own(name: str) -> None:
    """Raises CatalogError unless pull has stored or begun something under that name."""
    if _read(name) is not None or partial_dir(name).exists():
        return
    refuse_foreign(name)
    near = near_names(name, (model.name for model in stored_models()))
    hint = f" (did you mean {', '.join(near)}?)" if near else ""
    raise CatalogError(f"no model {name!r} is stored{hint}: `edgellm list --stored` shows all")


def remove(name: str) -> int:
    """Deletes a stored model and what is left of its downloads; returns the bytes they took.
    Under lock(). Raises CatalogError for anything that pull did not store."""
    require_own(name)
    manifest, model = _read(name), model_path(name)
    size = _length(model)
    if manifest is not None and size not in (None, manifest.size):
        raise CatalogError(
            f"{model} has {size:,} bytes and pull stored {manifest.size:,}: another file was put "
            "there, so delete it by hand"
        )
    partial = partial_dir(name)
    freed = sum(file.stat().st_size for file in partial.rglob("*") if file.is_file())
    with disk_errors(model):
        if manifest is not None:
            model.unlink(missing_ok=True)
            _manifest_path(name).unlink()
            freed += size or 0
        if partial.exists():
            shutil.rmtree(partial)
    return freed


def _checked(name: str) -> str:
    """A name that stays inside the folder."""
    if not NAME.fullmatch(name):
        raise CatalogError(
            f"{name!r} cannot be a model's name: expected letters, digits, '.', '_' and '-'"
        )
    return name


def _manifest_path(name: str) -> Path:
    return models_dir() / f"{_checked(name)}.json"


def _read(name: str) -> Stored | None:
    try:
        fields = json.loads(_manifest_path(name).read_text())
        fields["sources"] = tuple(fields["sources"])
        manifest = Stored(**fields)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return manifest if manifest.name == name else None


def _length(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
