"""`edgellm bench`: how fast a model reads prompts and writes tokens, tested as llama-bench does."""

import argparse
import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from edgellm.bench.bench import Row, opened
from edgellm.bench.timing import Workload
from edgellm.cli import options
from edgellm.cli.output import byte_size, print_json, print_table
from edgellm.cli.progress import DownloadProgress
from edgellm.client import find_model
from edgellm.errors import RequestError
from edgellm.escapes import printable
from edgellm.types import LoadOptions

_MOST = 1 << 24  # of any number given; a context that memory does not hold is refused later

# option, long option, default, least, what it is
_NUMBERS = (
    ("-p", "--n-prompt", "512", 0, "tokens of a prompt; 0 is no such test"),
    ("-n", "--n-gen", "64", 0, "tokens written one by one; 0 is no such test"),
    ("-d", "--n-depth", "0", 0, "tokens that come before, computed but not timed"),
    ("-b", "--sequences", "1", 1, "sequences that write side by side; rates count all of them"),
    ("-t", "--threads", None, 1, "threads of the CPU (default one for each fast core)"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s MODEL [options]"
    options.add_model(parser)
    group = parser.add_argument_group("tests", "N may be several numbers with commas between them")
    for short, long, default, least, text in _NUMBERS:
        shown = text if default is None else f"{text} (default {default})"
        group.add_argument(
            short, long, type=_numbers(least), default=default, metavar="N", help=shown
        )
    group.add_argument(
        "-r",
        "--repetitions",
        type=_number(1),
        default=3,
        metavar="N",
        help="times that each test is run, after a warm-up (default 3)",
    )
    group.add_argument(
        "--roofline",
        action="store_true",
        help="also read the weights that a token needs and nothing else, in turns with writing",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="how to report (default table); json has llama-bench's keys",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="output", help="-o json")
    options.add_backend_options(parser)


def run(args: argparse.Namespace) -> int:
    tests = _tests(args)
    if not tests:
        raise RequestError("nothing to do: give -p or -n a number above 0")
    rows = []
    with DownloadProgress() as report:
        path, _, _ = find_model(args.model, report)
        for threads in args.threads or [None]:
            loading = LoadOptions(
                backend=args.backend,
                device=args.device,
                gpu_layers=args.gpu_layers,
                threads=threads,
                kv_cache_type=args.kv_cache_type,
            )
            with opened(path, loading, tests, args.roofline, report.note) as bench:
                rows += [bench.run(test, args.repetitions) for test in tests]
    FORMATS[args.output](rows)
    return 0


def _tests(args: argparse.Namespace) -> list[Workload]:
    """Prompts first, then writing; the number of sequences matters for the latter alone."""
    prompts = product(args.n_depth, args.n_prompt)
    writing = product(args.n_depth, args.sequences, args.n_gen)
    return [
        *(Workload(n_prompt, 0, depth) for depth, n_prompt in prompts if n_prompt),
        *(Workload(0, n_gen, depth, seqs) for depth, seqs, n_gen in writing if n_gen),
    ]


def _number(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text[:20]) <= _MOST:
            raise argparse.ArgumentTypeError(f"{text!r}: expected {least} to {_MOST}")
        return int(text)

    return read


def _numbers(least: int) -> Callable[[str], list[int]]:
    one = _number(least)
    return lambda text: [one(part) for part in text.split(",")]


# ---------------------------------------------------------------- reports

_HEADINGS = ("MODEL", "SIZE", "THREADS", "TEST", "TOKENS/S", "GB/S", "OF READ", "GMAC/S", "PEAK")


def _cells(row: Row) -> Sequence[str]:
    decodes = row["n_gen"] > 0
    share = row["share_of_read"]
    return (
        row["model_type"],
        byte_size(row["model_size"]),
        str(row["n_threads"]),
        _test_name(row),
        f"{row['avg_ts']:.2f} ± {row['stddev_ts']:.2f}",
        f"{row['weight_gbs']:.1f}" if decodes else "",
        "" if share is None else f"{share:.0%} of {row['read_gbs']:.1f}",
        f"{row['gmacs']:.1f}",
        byte_size(row["peak_memory"]),
    )


def _test_name(row: Row) -> str:
    """llama-bench's words: pp is prompt processing, tg text generation."""
    name = f"tg{row['n_gen']}" if row["n_gen"] else f"pp{row['n_prompt']}"
    depth = f" @ d{row['n_depth']}" if row["n_depth"] else ""
    return name + (f" x {row['n_seqs']}" if row["n_seqs"] > 1 else "") + depth


def _print_table(rows: list[Row]) -> None:
    print_table(_HEADINGS, [_cells(row) for row in rows])


def _print_markdown(rows: list[Row]) -> None:
    for cells in (_HEADINGS, ["---"] * len(_HEADINGS), *map(_cells, rows)):
        print("|", " | ".join(printable(cell) for cell in cells), "|")


def _print_csv(rows: list[Row]) -> None:
    """All keys but the lists."""
    keys = [key for key, value in rows[0].items() if not isinstance(value, list)]
    writer = csv.DictWriter(sys.stdout, keys, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


FORMATS: Mapping[str, Callable[[list[Row]], None]] = {
    "table": _print_table,
    "md": _print_markdown,
    "csv": _print_csv,
    "json": print_json,
}
