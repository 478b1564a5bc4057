"""`edgellm eval`: measures a model. One row per measure in MEASURES."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from edgellm.cli import options
from edgellm.cli.output import print_json
from edgellm.llm import load

Watch = Callable[[int, int, float], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measures = parser.add_subparsers(metavar="MEASURE", dest="measure", required=True)
    for name, (_, summary) in MEASURES.items():
        measure = measures.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        measure.usage = "%(prog)s MODEL FILE [options]"
        options.add_model(measure)
        measure.add_argument("file", metavar="FILE", help="a text; - is standard input")
        measure.add_argument(
            "--chunks", type=int, metavar="N", help="score only the first N chunks"
        )
        measure.add_argument("--json", action="store_true", help="report as one JSON object")
        options.add_load_options(measure, context=512)


def run(args: argparse.Namespace) -> int:
    measure, _ = MEASURES[args.measure]
    return measure(args)


def _perplexity(args: argparse.Namespace) -> int:
    from edgellm.eval.perplexity import perplexity

    text = options.read_text(None if args.file == "-" else args.file)
    options.fetch(args.model)
    loading = asdict(options.load_options(args, max_num_seqs=1))
    with load(args.model, **loading) as model, _progress() as watch:
        found = perplexity(model, text, args.context, args.chunks, watch)
    if args.json:
        print_json(asdict(found))
    else:
        print(
            f"perplexity {found.perplexity:.4f} +/- {found.error:.4f} "
            f"({found.tokens} tokens in {found.chunks} chunks of {found.context})"
        )
    return 0


MEASURES: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "perplexity": (_perplexity, "how surprised a model is by each token of a text"),
}


@contextmanager
def _progress() -> Iterator[Watch | None]:
    """A bar on standard error when that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("perplexity", total=None)

        def watch(done: int, total: int, value: float) -> None:
            progress.update(bar, completed=done, total=total, description=f"{value:.4f}")

        yield watch
