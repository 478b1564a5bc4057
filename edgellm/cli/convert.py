"""`edgellm convert FOLDER OUT`: a published checkpoint as a GGUF file."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgellm.cli.output import byte_size, print_fields, print_json
from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.families import FAMILIES
from edgellm.convert.write import AUTO, FILE_TYPES, Watch, write_converted
from edgellm.gguf_loader import check_free


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"Kinds of models: {', '.join(FAMILIES)}."
    parser.add_argument(
        "folder", metavar="FOLDER", help="a folder with config.json, tokenizer.json and safetensors"
    )
    parser.add_argument("output", metavar="OUT", help="the file to write")
    parser.add_argument(
        "--type",
        default=AUTO,
        choices=(AUTO, *FILE_TYPES),
        help="of matrices (default auto: what they are stored in)",
    )
    parser.add_argument(
        "--pre",
        metavar="NAME",
        help="the rule that the tokenizer splits text by, where it is not known",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT when it is there")
    parser.add_argument("--json", action="store_true", help="report as one JSON object")


def run(args: argparse.Namespace) -> int:
    path = Path(args.output)
    check_free(path, args.force)
    checkpoint = open_checkpoint(Path(args.folder))
    with _progress() as watch:
        size = write_converted(checkpoint, path, args.type, args.pre, args.force, watch)
    if args.json:
        print_json({"file": args.output, "file_size": size, "tensors": len(checkpoint.tensors)})
    else:
        print_fields([("file", args.output), ("size", byte_size(size))])
    return 0


@contextmanager
def _progress() -> Iterator[Watch | None]:
    """A bar on standard error when that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("converting", total=None)

        def watch(done: int, total: int, name: str) -> None:
            progress.update(bar, completed=done, total=total, description=name)

        yield watch
