"""`edgellm eval table MODEL...`: several models and cache types side by side."""

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgellm.cli import eval_tasks as tasks, options
from edgellm.cli.output import byte_size, print_fields, print_json, print_table
from edgellm.cli.progress import progress_bar
from edgellm.errors import RequestError
from edgellm.eval.calls import read_tasks
from edgellm.eval.choice import read_items
from edgellm.eval.picture import Point, scatter
from edgellm.eval.table import QUALITIES, Row, Wanted, best, measure_row, measured, quality
from edgellm.kv_plan import parse_kv_types


def add_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", metavar="MODEL", nargs="+", help="names or GGUF files")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text", metavar="FILE", help="for the perplexity; - is standard input")
    parser.add_argument("--chunks", type=int, metavar="N", help="score only the first N chunks")
    parser.add_argument(
        "--against", metavar="MODEL", help="compare each with this one as well, as `eval kl` does"
    )
    for name, what in (("choice", "multiple choice"), ("calls", "tool calls and JSON")):
        parser.add_argument(f"--{name}", action="store_true", help=f"{what}: tasks of our own")
        parser.add_argument(f"--{name}-file", metavar="FILE", help=f"{what}: the tasks of a file")
    parser.add_argument(
        "--needle",
        type=int,
        action="append",
        default=[],
        metavar="TOKENS",
        help="find a fact again in texts of so many tokens; may be given several times",
    )
    parser.add_argument("--speed", action="store_true", help="tokens read and written per second")
    parser.add_argument(
        "--kv-cache-types",
        metavar="TYPE,...",
        help="a row for each of them (default: that of --kv-cache-type)",
    )
    parser.add_argument(
        "--picture", metavar="FILE", help="draw quality against bytes, as an SVG file"
    )


def run(args: argparse.Namespace) -> int:
    """One row for each model and cache type; they are loaded one after another."""
    wanted = _wanted(args)
    if args.picture is not None:
        read = (*args.models, args.against, args.text, args.choice_file, args.calls_file)
        options.keep_inputs(Path(args.picture), read)
    types = (args.kv_cache_types or args.kv_cache_type or "f16").split(",")
    for name in types:
        parse_kv_types(name)
    for model in [*args.models, *([args.against] if args.against else [])]:
        options.fetch(model)
    with progress_bar("measuring") as watch:
        rows = [measure_row(model, kind, wanted, watch) for model in args.models for kind in types]
    if args.json:
        chosen = best(rows)
        print_json({"rows": [asdict(row) for row in rows], "best": chosen and asdict(chosen)})
    else:
        _print(rows)
    if args.picture is not None:  # last: what was measured is shown, whatever becomes of it
        _draw(rows, Path(args.picture))
    return 0


def _print(rows: list[Row]) -> None:
    columns = [name for name in measured(rows) if name in _COLUMNS]
    print_table(
        [_COLUMNS[name][0] for name in columns],
        [[_shown(row, name) for name in columns] for row in rows],
    )
    chosen = best(rows)
    if chosen is not None and len(rows) > 1:
        print()
        by = _COLUMNS[quality(rows) or ""][0].lower()
        print_fields([(f"best {by} that fits here", f"{chosen.model}, {chosen.kv_cache_type}")])


def _wanted(args: argparse.Namespace) -> Wanted:
    items, calls = _lines(args, "choice", tasks.CHOICE), _lines(args, "calls", tasks.CALLS)
    wanted = Wanted(
        text=None if args.text is None else options.read_text(args.text),
        context=args.context,
        chunks=args.chunks,
        against=args.against,
        items=() if items is None else read_items(items, args.choice_file or tasks.CHOICE),
        needle_lengths=tuple(args.needle),
        tasks=() if calls is None else read_tasks(calls, args.calls_file or tasks.CALLS),
        speed=args.speed,
        loading=options.load_options(args, max_num_seqs=1),
    )
    if args.against is not None and args.text is None:
        raise RequestError("--against compares predictions on a text: give --text FILE", "text")
    measures = wanted.items, wanted.needle_lengths, wanted.tasks, wanted.speed
    if wanted.text is None and not any(measures):
        raise RequestError(
            "nothing to measure: give --text FILE, --choice, --needle, --calls or --speed", "text"
        )
    return wanted


def _lines(args: argparse.Namespace, name: str, own: str) -> list[str] | None:
    """Of the tasks that are asked for; None when they are not."""
    given = getattr(args, f"{name}_file")
    return tasks.lines(given, own) if given or getattr(args, name) else None


# key: (heading, how its value is shown)
_COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "model": ("MODEL", str),
    "kv_cache_type": ("KV CACHE", str),
    "bytes": ("WEIGHTS", byte_size),
    "bits_per_weight": ("BITS", "{:.2f}".format),
    "kv_cache_bytes": ("CACHE", byte_size),
    "fits": ("FITS", lambda fits: "yes" if fits else "no"),
    "perplexity": ("PERPLEXITY", "{:.4f}".format),
    "error": ("+/-", "{:.4f}".format),
    "kl": ("KL", "{:.4g}".format),
    "top_agreement": ("SAME TOP", "{:.2%}".format),
    "choice": ("CHOICE", "{:.1%}".format),
    "needle": ("NEEDLE", "{:.0%}".format),
    "calls": ("CALLS", "{:.0%}".format),
    "reading": ("READS/S", "{:.0f}".format),
    "writing": ("WRITES/S", "{:.1f}".format),
}


def _shown(row: Row, name: str) -> str:
    value = getattr(row, name)
    return "" if value is None else _COLUMNS[name][1](value)


def _draw(rows: list[Row], path: Path) -> None:
    name = quality(rows)
    if name is None:
        raise RequestError("nothing to draw: speed alone says nothing of quality", "picture")
    points = [
        Point(
            (row.bytes + row.kv_cache_bytes) / 1e6,
            getattr(row, name),
            f"{Path(row.model).stem} {row.kv_cache_type}",
        )
        for row in rows
    ]
    heading = _COLUMNS[name][0].lower()
    title = f"{heading} against memory"
    path.write_text(
        scatter(points, title, "weights and cache, MB", heading, QUALITIES[name]), "utf-8"
    )
