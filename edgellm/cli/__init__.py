"""The `edgellm` command: finds the command named, runs it, turns errors into exit codes.

Knows nothing of what the commands do. Each one is a module with `add_arguments(parser)` and
`run(args) -> int`, imported only when it is the one named, so that `edgellm --help` is instant.
Exit codes: 2 bad usage or bad file, 1 failed run, 130 Ctrl-C, 141 when the reader of our output
has gone (what a shell shows for a program that SIGPIPE ended).
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from edgellm.cli.examples import EXAMPLES
from edgellm.errors import (
    BackendError,
    CatalogError,
    DownloadError,
    EdgeLLMError,
    GGUFError,
    RequestError,
)
from edgellm.escapes import printable
from edgellm.version import __version__

# No module is called `list`: importing it here would hide the builtin of that name.
COMMANDS = {
    "chat": ("edgellm.cli.chat", "conversations in the terminal"),
    "run": ("edgellm.cli.run", "write one answer to standard output"),
    "serve": ("edgellm.cli.serve", "let other programs use models, over a socket"),
    "lsp": ("edgellm.cli.lsp", "suggestions at the cursor, for editors"),
    "pull": ("edgellm.cli.pull", "fetch a model"),
    "list": ("edgellm.cli.list_models", "the models of the catalogue and those stored here"),
    "show": ("edgellm.cli.show", "what a model file holds and the memory it needs"),
    "fit": ("edgellm.cli.fit", "what would run on this machine, and how"),
    "rm": ("edgellm.cli.rm", "delete a model that pull stored"),
    "embed": ("edgellm.cli.embed", "a text as numbers, to compare it with others"),
    "tokenize": ("edgellm.cli.tokenize", "text to token ids"),
    "eval": ("edgellm.cli.eval", "measure a model"),
    "bench": ("edgellm.cli.bench", "how fast a model runs on this machine"),
    "convert": ("edgellm.cli.convert", "a published checkpoint as a GGUF file"),
    "quantize": ("edgellm.cli.quantize", "write a model in fewer bits"),
    "imatrix": ("edgellm.cli.imatrix", "what drives the weights of a model, for quantize"),
    "doctor": ("edgellm.cli.doctor", "what this machine offers and what is set up"),
}

# The first class that fits decides.
EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (DownloadError, 1),
    (BackendError, 1),
    (CatalogError, 2),
    (GGUFError, 2),
    (RequestError, 2),
    (EdgeLLMError, 1),
    (FileNotFoundError, 2),
    (IsADirectoryError, 2),
    (NotADirectoryError, 2),
    (PermissionError, 2),
    (Exception, 1),
)


class _Parser(argparse.ArgumentParser):
    """Of the command line, of a command and of its parts. --debug may stand among any options."""

    examples: Sequence[str] = ()
    _is_between = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})
        self.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the traceback of an error",
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Lets options stand between words. argparse by itself takes words that may be left out,
        or be several, for missing as soon as an option follows the word before them."""
        if self._is_between or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._is_between = True  # it parses twice
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_between = False

    def format_help(self) -> str:
        shown = "".join(f"  {line}\n" for line in self.examples)
        return super().format_help() + (f"\nexamples:\n{shown}" if shown else "")

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"edgellm: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (default: sys.argv without the program) and returns its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _mend_streams()
    debug = "--debug" in arguments
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except Exception as error:
        if debug:
            traceback.print_exc()
        said = "\n".join(map(printable, _describe(error).splitlines()))
        print(f"edgellm: {said}", file=sys.stderr)
        return next(code for kind, code in EXIT_CODES if isinstance(error, kind))


def _run(arguments: list[str]) -> int:
    # The options before the command take no value: the first plain word names it.
    named = next((word for word in arguments if not word.startswith("-")), None)
    parser = _Parser(
        prog="edgellm",
        description="Runs language models in GGUF files on this machine.",
        epilog="edgellm COMMAND --help tells what a command takes. Exit codes: 0 done, 1 failed, "
        "2 cannot be done as asked, 130 Ctrl-C.",
    )
    parser.add_argument("--version", action="version", version=f"edgellm {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")
    chosen = parser
    for name, (module_name, summary) in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary)
        if name == named:
            chosen = sub
            sub.examples = EXAMPLES.get(name, ())
            module = import_module(module_name)
            module.add_arguments(sub)
    try:
        if named is not None and named not in COMMANDS:
            near = _near([named], list(COMMANDS))
            parser.error(f"there is no command {named!r}{near}: edgellm --help lists all")
        args, unknown = parser.parse_known_args(arguments)
        if unknown:
            typed = [word.partition("=")[0] for word in unknown if word.startswith("--")]
            near = _near(typed, list(chosen._option_string_actions))
            chosen.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
    except SystemExit as leave:  # argparse has said why, or has shown the help
        return leave.code if isinstance(leave.code, int) else 0
    if args.command is None:
        parser.print_help(sys.stderr)
        return 2
    code: int = module.run(args)
    return code


def _near(words: list[str], known: list[str]) -> str:
    """What mistyped words may have been meant to be."""
    from difflib import get_close_matches  # for errors alone

    near = [name for word in words for name in get_close_matches(word, known, 1)]
    return f" (near: {', '.join(near)})" if near else ""


def _describe(error: Exception) -> str:
    if isinstance(error, EdgeLLMError):
        return str(error)
    if isinstance(error, OSError):
        said = error.strerror or str(error)
        return f"{error.filename}: {said}" if error.filename else said
    return f"{type(error).__name__}: {error} (an error of edgellm itself: --debug shows where)"


def _mend_streams() -> None:
    """Text that the terminal's encoding lacks is shown escaped instead of raising; what is said
    on a stream that whoever started us has closed goes nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))
        elif reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Points standard output at nothing: the interpreter flushes it once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
