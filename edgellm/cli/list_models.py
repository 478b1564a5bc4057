"""`edgellm list`: the models of the catalogue and those stored here."""

import argparse
from typing import Any

from edgellm.catalog import load_catalog
from edgellm.cli.output import byte_size, print_json, print_table
from edgellm.pull import stored_models


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stored", action="store_true", help="only those stored here")
    parser.add_argument("--json", action="store_true", help="report as JSON")


def run(args: argparse.Namespace) -> int:
    models = [m for m in _models() if m["stored"] or not args.stored]
    if args.json:
        print_json(models)
        return 0
    rows = [
        (
            model["name"],
            "yes" if model["stored"] else "",
            byte_size(model["size"]),
            model["license"] or "?",
            model["description"],
        )
        for model in models
    ]
    print_table(("NAME", "STORED", "SIZE", "LICENCE", "DESCRIPTION"), rows)
    return 0


def _models() -> list[dict[str, Any]]:
    """Catalogue entries in its order, then what is stored under other names."""
    catalog = load_catalog()
    stored = {model.name: model for model in stored_models()}
    known = [
        {
            "name": entry.name,
            "description": entry.description,
            "license": entry.license,
            "architecture": entry.architecture,
            "size": stored[entry.name].size if entry.name in stored else entry.size,
            "context": entry.context,
            "sampling": dict(entry.sampling),
            "sources": [" + ".join(map(str, parts)) for parts in entry.sources],
            "stored": str(stored[entry.name].path) if entry.name in stored else None,
        }
        for entry in catalog.values()
    ]
    others: list[dict[str, Any]] = [
        {
            "name": model.name,
            "description": f"from {' + '.join(model.sources)}",
            "license": None,
            "architecture": None,
            "size": model.size,
            "context": None,
            "sampling": {},
            "sources": [" + ".join(model.sources)],
            "stored": str(model.path),
        }
        for model in stored.values()
        if model.name not in catalog
    ]
    return known + others
