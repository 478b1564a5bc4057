"""`edgellm eval`: measures a model. A row per measure in MEASURES."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from edgellm.cli import options
from edgellm.cli.output import byte_size, print_fields, print_json, print_table
from edgellm.errors import RequestError
from edgellm.gguf_loader import open_gguf
from edgellm.llm import load

Watch = Callable[[int, int, float], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measures = parser.add_subparsers(metavar="MEASURE", dest="measure", required=True)
    for name, row in MEASURES.items():
        measure = measures.add_parser(
            name, help=row.summary, description=row.summary, allow_abbrev=False
        )
        measure.usage = f"%(prog)s {row.models} FILE [options]"
        row.add_models(measure)
        measure.add_argument("file", metavar="FILE", help="a text; - is standard input")
        measure.add_argument(
            "--chunks", type=int, metavar="N", help="score only the first N chunks"
        )
        row.add_own(measure)
        measure.add_argument("--json", action="store_true", help="report as one JSON object")
        options.add_load_options(measure, context=512)


def run(args: argparse.Namespace) -> int:
    return MEASURES[args.measure].run(args)


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


def _add_against(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--against",
        metavar="MODEL2",
        help="the model whose predictions count as the truth (default MODEL itself)",
    )
    parser.add_argument(
        "--against-backend",
        metavar="NAME",
        help="the backend that it runs on (default that of --backend)",
    )


def _kl(args: argparse.Namespace) -> int:
    from edgellm.eval.kl import divergence

    if args.against is None and args.against_backend is None:
        raise RequestError(
            "nothing to compare with: give --against MODEL2, --against-backend NAME, or both",
            "against",
        )
    text = options.read_text(None if args.file == "-" else args.file)
    other = args.model if args.against is None else args.against
    options.fetch(args.model)
    options.fetch(other)
    loading = asdict(options.load_options(args, max_num_seqs=1))
    other_loading = {**loading, "backend": args.against_backend or args.backend}
    with (
        load(args.model, **loading) as model,
        load(other, **other_loading) as against,
        _progress() as watch,
    ):
        found = divergence(model, against, text, args.context, args.chunks, watch)
    if args.json:
        print_json(asdict(found))
    else:
        print_fields(
            [
                ("mean KL divergence", f"{found.mean:.4g}"),
                ("99th percentile", f"{found.percentile_99:.4g}"),
                ("same top token", f"{found.top_agreement:.2%}"),
                ("perplexity", f"{found.perplexity:.4f}"),
                ("perplexity compared with", f"{found.against_perplexity:.4f}"),
                ("scored", f"{found.tokens} tokens in {found.chunks} chunks of {found.context}"),
            ]
        )
    return 0


def _add_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--against", metavar="MODEL", help="compare each with this one as well, as `eval kl` does"
    )


def _table(args: argparse.Namespace) -> int:
    """One row for each model; they are loaded one after another."""
    text = options.read_text(None if args.file == "-" else args.file)
    loading = asdict(options.load_options(args, max_num_seqs=1))
    rows = [_row(args, model, text, loading) for model in args.models]
    if args.json:
        print_json(rows)
        return 0
    columns = [name for name in _COLUMNS if rows[0][name] is not None]
    print_table(
        [_COLUMNS[name][0] for name in columns],
        [[_COLUMNS[name][1](row[name]) for name in columns] for row in rows],
    )
    return 0


# key: (heading, how its value is shown)
_COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "model": ("MODEL", str),
    "bytes": ("WEIGHTS", byte_size),
    "bits_per_weight": ("BITS", "{:.2f}".format),
    "perplexity": ("PERPLEXITY", "{:.4f}".format),
    "error": ("+/-", "{:.4f}".format),
    "kl": ("KL", "{:.4g}".format),
    "top_agreement": ("SAME TOP", "{:.2%}".format),
}


def _row(args: argparse.Namespace, name: str, text: str, loading: dict[str, Any]) -> dict[str, Any]:
    from edgellm.eval.kl import divergence
    from edgellm.eval.perplexity import perplexity

    options.fetch(name)
    row: dict[str, Any] = dict.fromkeys(_COLUMNS)
    with load(name, **loading) as model:
        with _progress() as watch:
            found = perplexity(model, text, args.context, args.chunks, watch)
        row |= {"model": name, "perplexity": found.perplexity, "error": found.error}
        with open_gguf(model.info.path) as file:
            bits = 8 * file.num_bytes / file.num_parameters
            row |= {"bytes": file.num_bytes, "bits_per_weight": bits}
        if args.against is not None:
            options.fetch(args.against)
            with load(args.against, **loading) as against, _progress() as watch:
                apart = divergence(model, against, text, args.context, args.chunks, watch)
            row |= {"kl": apart.mean, "top_agreement": apart.top_agreement}
    return row


def _add_several(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", metavar="MODEL", nargs="+", help="names or GGUF files")


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    pass


Add = Callable[[argparse.ArgumentParser], None]


@dataclass(frozen=True)
class Measure:
    """run: what measures and reports. add_own: adds its own options. models: as usage has them."""

    run: Callable[[argparse.Namespace], int]
    summary: str
    add_own: Add = _add_nothing
    models: str = "MODEL"
    add_models: Add = options.add_model


MEASURES = {
    "perplexity": Measure(_perplexity, "how surprised a model is by each token of a text"),
    "table": Measure(
        _table,
        "size and perplexity of several models on a text, side by side",
        _add_table,
        "MODEL [MODEL ...]",
        _add_several,
    ),
    "kl": Measure(_kl, "how far a model's predictions lie from another's on a text", _add_against),
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
        bar = progress.add_task("scoring", total=None)

        def watch(done: int, total: int, value: float) -> None:
            progress.update(bar, completed=done, total=total, description=f"{value:.4f}")

        yield watch
