"""The models known by name: the catalogue's, and what is stored here under other names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.catalog import CatalogEntry, load_catalog
from edgellm.pull.store import Stored, stored_models


@dataclass(frozen=True)
class Known:
    """One model. size: bytes, of the file where it is stored. sources: as text, parts joined by +.
    stored: the path of its file, None when it is not here. The rest is as in CatalogEntry."""

    name: str
    description: str
    license: str | None
    architecture: str | None
    size: int | None
    context: int | None
    sampling: Mapping[str, Any]
    sources: tuple[str, ...]
    stored: str | None


def known_models() -> list[Known]:
    """Those of the catalogue in its order, then others by name. CatalogError for a wrong file."""
    catalog = load_catalog()
    stored = {model.name: model for model in stored_models()}
    known = [_listed(entry, stored.pop(name, None)) for name, entry in catalog.items()]
    return known + [_unlisted(model) for model in stored.values()]


def _listed(entry: CatalogEntry, stored: Stored | None) -> Known:
    return Known(
        name=entry.name,
        description=entry.description,
        license=entry.license,
        architecture=entry.architecture,
        size=entry.size if stored is None else stored.size,
        context=entry.context,
        sampling=dict(entry.sampling),
        sources=tuple(" + ".join(map(str, parts)) for parts in entry.sources),
        stored=None if stored is None else str(stored.path),
    )


def _unlisted(model: Stored) -> Known:
    source = " + ".join(model.sources)
    return Known(
        name=model.name,
        description=f"from {source}",
        license=None,
        architecture=None,
        size=model.size,
        context=None,
        sampling={},
        sources=(source,),
        stored=str(model.path),
    )
