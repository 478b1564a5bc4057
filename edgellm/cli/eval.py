"""`edgellm eval`: measures a model. A row per measure in MEASURES."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from edgellm.cli import eval_table, eval_tasks as tasks, options
from edgellm.cli.output import print_fields, print_json, print_table
from edgellm.cli.progress import progress_bar
from edgellm.errors import RequestError
from edgellm.llm import Model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    measures = parser.add_subparsers(metavar="MEASURE", dest="measure", required=True)
    for name, row in MEASURES.items():
        measure = measures.add_parser(name, help=row.summary, description=row.summary)
        row.add_models(measure)
        row.add(measure)
        measure.add_argument("--json", action="store_true", help="report as one JSON object")
        options.add_load_options(measure, context=row.context)


def run(args: argparse.Namespace) -> int:
    return MEASURES[args.measure].run(args)


def _perplexity(args: argparse.Namespace) -> int:
    from edgellm.eval.perplexity import perplexity

    text = options.read_text(args.file)
    with _one(args) as model, progress_bar("scoring") as watch:
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
    text = options.read_text(args.file)
    other = args.model if args.against is None else args.against
    options.fetch(args.model)
    options.fetch(other)
    loading = options.load_options(args, max_num_seqs=1)
    other_loading = replace(loading, backend=args.against_backend or args.backend)
    with (
        Model.open(args.model, loading) as model,
        Model.open(other, other_loading) as against,
        progress_bar("scoring") as watch,
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


def _choice(args: argparse.Namespace) -> int:
    from edgellm.eval.choice import multiple_choice, read_items

    items = read_items(tasks.lines(args.file, tasks.CHOICE), args.file or tasks.CHOICE)
    with _one(args) as model, progress_bar("choosing") as watch:
        found = multiple_choice(model, items, watch)
    if args.json:
        print_json(asdict(found))
    else:
        print(
            f"accuracy {found.accuracy:.2%} +/- {found.error:.2%}, {found.accuracy_norm:.2%} for "
            f"the length of choices, {found.chance:.2%} by chance ({found.items} items)"
        )
    return 0


def _needle(args: argparse.Namespace) -> int:
    from edgellm.eval.needle import needles

    with _one(args) as model, progress_bar("looking") as watch:
        found = needles(model, args.length, watch=watch)
    if args.json:
        print_json(asdict(found))
        return 0
    depths = list(dict.fromkeys(one.depth for one in found.tries))
    lengths = list(dict.fromkeys(one.tokens for one in found.tries))
    seen = {(one.tokens, one.depth): "yes" if one.is_found else "no" for one in found.tries}
    print_table(
        ["TOKENS", *(f"{depth:.0%} DEEP" for depth in depths)],
        [[f"{n:,}", *(seen[n, depth] for depth in depths)] for n in lengths],
    )
    return 0


def _add_lengths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--length",
        type=int,
        action="append",
        metavar="TOKENS",
        help="of the text; may be given several times (default: a quarter of the context, a half, "
        "and all of it)",
    )


def _calls(args: argparse.Namespace) -> int:
    from edgellm.eval.calls import read_tasks, tool_calls

    given = read_tasks(tasks.lines(args.file, tasks.CALLS), args.file or tasks.CALLS)
    with _one(args) as model, progress_bar("calling") as watch:
        found = tool_calls(model, given, watch)
    if args.json:
        print_json(asdict(found))
    else:
        print(f"valid {found.valid:.2%}, right {found.right:.2%} ({found.tasks} tasks)")
    return 0


@contextmanager
def _one(args: argparse.Namespace) -> Iterator[Model]:
    """The model of the command line."""
    options.fetch(args.model)
    with Model.open(args.model, options.load_options(args, max_num_seqs=1)) as model:
        yield model


def _add_text(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a text; - is standard input")
    parser.add_argument("--chunks", type=int, metavar="N", help="score only the first N chunks")


def _add_text_and_other(parser: argparse.ArgumentParser) -> None:
    _add_text(parser)
    _add_against(parser)


def _add_tasks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="tasks as JSON lines (default: some of our own)"
    )


@dataclass(frozen=True)
class Measure:
    """run: what measures and reports. add: its own arguments, after those of models. context: the
    default, in tokens; None is that of `load`."""

    run: Callable[[argparse.Namespace], int]
    summary: str
    add: Callable[[argparse.ArgumentParser], None]
    add_models: Callable[[argparse.ArgumentParser], None] = options.add_model
    context: int | None = 512


MEASURES = {
    "perplexity": Measure(
        _perplexity, "how surprised a model is by each token of a text", _add_text
    ),
    "kl": Measure(
        _kl, "how far a model's predictions lie from another's on a text", _add_text_and_other
    ),
    "choice": Measure(
        _choice, "how often a model finds the right one of several answers likeliest", _add_tasks
    ),
    "needle": Measure(
        _needle, "whether a model finds a fact again in a long text", _add_lengths, context=None
    ),
    "calls": Measure(
        _calls, "whether tool calls and JSON are as asked for", _add_tasks, context=None
    ),
    "table": Measure(
        eval_table.run,
        "several models and cache types side by side, and which to use here",
        eval_table.add_arguments,
        eval_table.add_models,
        context=1024,
    ),
}
