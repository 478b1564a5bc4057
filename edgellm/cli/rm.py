"""`edgellm rm NAME`: deletes models that pull stored, and nothing else."""

import argparse

from edgellm.cli.output import byte_size
from edgellm.cli.progress import DownloadProgress
from edgellm.pull import remove


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="+", help="a name from `edgellm list`")


def run(args: argparse.Namespace) -> int:
    for name in args.names:
        freed = remove(name.lower(), DownloadProgress())
        print(f"{name}: deleted, {byte_size(freed)} freed")
    return 0
