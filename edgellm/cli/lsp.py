"""`edgellm lsp`: suggestions for editors that speak the Language Server Protocol."""

import argparse
import os
import sys
from typing import BinaryIO

from edgellm.cli import options
from edgellm.cli.running_server import KEY_VARIABLE
from edgellm.errors import BackendError
from edgellm.lsp.connect import Asked, find


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server",
        metavar="ADDRESS",
        help="ask the server at this socket or http://HOST:PORT (default: the one that runs here)",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="a model's name, or the path of a GGUF file, loaded here when no server has it "
        "(default: the first of the server's that can fill in the middle)",
    )
    parser.add_argument(
        "--delay",
        type=int,
        default=40,
        metavar="MS",
        help="milliseconds without another keystroke before the model is asked (default 40)",
    )
    options.add_load_options(parser)


def run(args: argparse.Namespace) -> int:
    try:
        from edgellm.lsp.server import serve
    except ModuleNotFoundError as error:
        raise BackendError(
            f"{error.name} is not installed: edgellm lsp needs the extra lsp "
            "(pip install 'edgellm[lsp]')"
        ) from None
    key = os.environ.get(KEY_VARIABLE)
    asked = Asked(args.server, key, args.model, options.load_options(args))
    serve(lambda: find(asked), args.delay / 1000, sys.stdin.buffer, _take_stdout())
    return 0


def _take_stdout() -> BinaryIO:
    """Standard output for the protocol alone; what anything else prints goes to standard error."""
    ours = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return ours
