"""The models known by name: the packaged models.toml and the user's own over it.

Reads and checks descriptions. Knows nothing of what is stored here or how it is fetched.
An entry in `config_dir()/models.toml` changes the fields it gives of a packaged model of the same
name, or adds a model; giving `sources` drops the packaged size, sha256 and architecture, which
described others.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from edgellm.config import config_dir
from edgellm.errors import CatalogError, RequestError
from edgellm.options import NUMBER, WHOLE, check
from edgellm.sampling_params import OPTIONS
from edgellm.sources import Source, file_name, is_source, parse_source

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SAMPLING = {name for name, option in OPTIONS.items() if option.kind in (WHOLE, NUMBER)} - {
    "n",
    "beam_width",
}
_OF_THE_FILE = ("size", "sha256", "architecture")
_MAX_FILE = 4 << 20  # bytes of a models.toml


@dataclass(frozen=True)
class CatalogEntry:
    """One model by name.

    sources: tried in order; each is one file, or several whose bytes are joined in order.
    architecture: what the file says in general.architecture; None when it is not known.
    size: bytes, for show. sha256: of the whole file; None when the catalogue does not know it.
    context: tokens the model was trained for. sampling: fields of SamplingParams its makers advise.
    """

    name: str
    sources: tuple[tuple[Source, ...], ...]
    description: str = ""
    license: str | None = None
    architecture: str | None = None
    size: int | None = None
    sha256: str | None = None
    context: int | None = None
    sampling: Mapping[str, float] = field(default_factory=dict)


def load_catalog() -> Mapping[str, CatalogEntry]:
    """All models by name, in the order of the files. Raises CatalogError naming file and key."""
    packaged, users = _packaged_path(), config_dir() / "models.toml"
    tables = {name: (table, packaged) for name, table in _read(packaged).items()}
    if users.exists():
        for name, table in _read(users).items():
            base = dict(tables[name][0]) if name in tables else {}
            if "sources" in table:
                base = {k: v for k, v in base.items() if k not in _OF_THE_FILE}
            tables[name] = ({**base, **table}, users)
    return {name: _entry(name, table, file) for name, (table, file) in tables.items()}


def entry_for_source(text: str, name: str | None = None) -> CatalogEntry:
    """An entry for a source given on the command line; its name comes from the file's."""
    source = parse_source(text, Path.cwd())
    stem = file_name(source).lower().removesuffix(".gguf")
    chosen = (name or re.sub(r"[^a-z0-9._-]+", "-", stem).lstrip("-._")).lower()
    if not NAME.fullmatch(chosen):
        raise CatalogError(
            f"{chosen!r} cannot be a model's name: expected letters, digits, '.', '_' and '-' "
            "(--name gives another)"
        )
    return CatalogEntry(chosen, ((source,),), description=f"from {source}")


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """The names most like `name`, best first, at most five."""
    known = sorted(set(names))
    starting = [n for n in known if n.startswith(name.lower())]
    similar = difflib.get_close_matches(name.lower(), known, n=5, cutoff=0.5)
    return list(dict.fromkeys(starting + similar))[:5]


def _packaged_path() -> Path:
    """models.toml inside the wheel, or at the root of a checkout."""
    inside = Path(__file__).with_name("models.toml")
    return inside if inside.exists() else Path(__file__).parent.parent / "models.toml"


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        with file.open("rb") as stream:
            text = stream.read(_MAX_FILE + 1)
        if len(text) > _MAX_FILE:
            raise CatalogError(f"{file}: larger than {_MAX_FILE >> 20} MiB: no list of models")
        tables = tomllib.loads(text.decode())
    except OSError as error:
        raise CatalogError(f"{file}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CatalogError(f"{file}: not a TOML file: {error}") from None
    for name, table in tables.items():
        if not NAME.fullmatch(name):
            raise CatalogError(
                f"{file}: [{name}]: a model's name has lower-case letters, digits, '.', '_', '-' "
                "(in quotes where it has a dot) and starts with a letter or digit"
            )
        if not isinstance(table, dict):
            raise CatalogError(f"{file}: {name}: expected a table, [{name}] and its keys below")
    return tables


def _entry(name: str, table: Mapping[str, Any], file: Path) -> CatalogEntry:
    where = f"{file}: [{name}]"
    known = {f.name for f in fields(CatalogEntry)} - {"name"}
    if unknown := sorted(set(table) - known):
        raise CatalogError(f"{where}: unknown key {unknown[0]!r}: known are {sorted(known)}")
    sha256 = _text(table, "sha256", where)
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise CatalogError(f"{where}: sha256: expected 64 lower-case hexadecimal digits")
    return CatalogEntry(
        name=name,
        sources=_sources(table.get("sources"), where, file.parent),
        description=_text(table, "description", where) or "",
        license=_text(table, "license", where),
        architecture=_text(table, "architecture", where),
        size=_count(table, "size", where),
        sha256=sha256,
        context=_count(table, "context", where),
        sampling=_sampling(table.get("sampling", {}), where),
    )


def _text(table: Mapping[str, Any], key: str, where: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise CatalogError(f"{where}: {key}: expected a string, found {value!r}")
    return value


def _count(table: Mapping[str, Any], key: str, where: str) -> int | None:
    value = table.get(key)
    if value is not None and (type(value) is not int or value < 1):
        raise CatalogError(f"{where}: {key}: expected a number above 0, found {value!r}")
    return value


def _sampling(value: Any, where: str) -> Mapping[str, float]:
    if not isinstance(value, dict):
        raise CatalogError(f"{where}: sampling: expected a table such as {{ temperature = 0.7 }}")
    for key, number in value.items():
        if key not in _SAMPLING:
            raise CatalogError(
                f"{where}: sampling.{key}: expected a number for one of {sorted(_SAMPLING)}"
            )
        try:
            check(OPTIONS[key], number)
        except RequestError as error:
            raise CatalogError(f"{where}: sampling.{error}") from None
    return dict(value)


def _sources(value: Any, where: str, base: Path) -> tuple[tuple[Source, ...], ...]:
    if not isinstance(value, list) or not value:
        raise CatalogError(f"{where}: sources: expected a list of sources, found {value!r}")
    sources = []
    for item in value:
        parts = item if isinstance(item, list) else [item]
        if not parts or not all(isinstance(part, str) for part in parts):
            raise CatalogError(f"{where}: sources: expected strings or lists of them: {item!r}")
        try:
            parsed = tuple(parse_source(part, base) for part in parts)
        except CatalogError as error:
            raise CatalogError(f"{where}: sources: {error}") from None
        if len(parts) > 1 and not all(is_source(part) for part in parts):
            raise CatalogError(f"{where}: sources: a local file cannot be a part to join: {item!r}")
        sources.append(parsed)
    return tuple(sources)
