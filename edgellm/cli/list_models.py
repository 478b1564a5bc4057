"""`edgellm list`: the models of the catalogue and those stored here."""

import argparse
from dataclasses import asdict

from edgellm.cli.output import byte_size, print_json, print_table
from edgellm.pull.known import known_models


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stored", action="store_true", help="only those stored here")
    parser.add_argument("--json", action="store_true", help="report as JSON")


def run(args: argparse.Namespace) -> int:
    models = [model for model in known_models() if model.stored or not args.stored]
    if args.json:
        print_json([asdict(model) for model in models])
        return 0
    rows = [
        (
            model.name,
            "yes" if model.stored else "",
            byte_size(model.size),
            model.license or "?",
            model.description,
        )
        for model in models
    ]
    print_table(("NAME", "STORED", "SIZE", "LICENCE", "DESCRIPTION"), rows)
    return 0
