"""`edgellm chat`: conversations in the terminal."""

import argparse
import asyncio
import os
import sys

import psutil

from edgellm.cli import options
from edgellm.client import ChildClient, Client
from edgellm.config import history_file
from edgellm.errors import RequestError
from edgellm.pull import entry_of, pull
from edgellm.pull.known import known_models
from edgellm.tui import interpreter
from edgellm.tui.app import ChatApp
from edgellm.tui.doors import Advance, Note, Offer
from edgellm.tui.plain import can_draw, converse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="a model's name, or the path of a GGUF file"
    )
    parser.add_argument(
        "--web", action="store_true", help="in a browser of this machine (needs the extra web)"
    )
    parser.add_argument(
        "--port", type=options.port, metavar="N", help="with --web: the port to listen on"
    )
    options.add_load_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.model is not None:
        options.fetch(args.model)
    if args.web:
        return _serve(args)
    is_page = "TEXTUAL_DRIVER" in os.environ  # set by the server of --web for its pages
    if not is_page and not can_draw(os.environ.get("TERM"), sys.stdin, sys.stdout):
        if args.model is None:
            raise RequestError(
                "no model: without a screen to choose one on, give its name", "model"
            )
        loading = options.load_options(args)
        asyncio.run(converse(ChildEngine(), history_file(), args.model, loading))
        return 0
    interpreter.begin()
    app = ChatApp(ChildEngine(), Models(), history_file(), args.model, options.load_options(args))
    app.run()
    return app.return_code or 0


def _serve(args: argparse.Namespace) -> int:
    """The chat in a browser: every page runs this command again, without --web."""
    try:
        from edgellm.tui.web import ChatServer, free_port
    except ModuleNotFoundError as error:
        raise RequestError(f"--web needs {error.name}: pip install 'edgellm[web]'", "web") from None
    words = sys.argv[sys.argv.index("chat") :]
    command = [sys.executable, "-m", "edgellm", *(word for word in words if word != "--web")]
    ChatServer(command, args.port or free_port()).serve()
    return 0


class _Report:
    """Passes on what users should know of a model that is pulled."""

    def __init__(self, advance: Advance, note: Note) -> None:
        self.advance = advance
        self.note = note

    def count(self, what: str, done: int, total: int) -> None:
        """Nothing is counted while a file comes."""


class ChildEngine:
    """An engine in a child process, so that neither it nor the screen can hold the other up."""

    def __init__(self) -> None:
        self._client: ChildClient | None = None

    async def start(self) -> Client:
        if self._client is not None:
            await self._client.close()
        self._client = await ChildClient.start()
        return self._client

    def memory(self) -> int | None:
        pid = self._client.pid if self._client else None
        if pid is None:
            return None
        try:
            resident: int = psutil.Process(pid).memory_info().rss
        except psutil.NoSuchProcess:
            return None
        return resident


class Models:
    """The catalogue, and what is stored here."""

    def offers(self) -> tuple[Offer, ...]:
        return tuple(
            Offer(model.name, model.description, model.size, model.stored, model.license)
            for model in known_models()
        )

    def pull(self, name: str, advance: Advance, note: Note) -> str:
        entry = entry_of(name)
        pull(entry, _Report(advance, note))
        return entry.name
