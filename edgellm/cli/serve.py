"""`edgellm serve`: models for other programs, on a Unix socket or on TCP."""

import argparse
import asyncio
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from edgellm.cli import options
from edgellm.cli.progress import DownloadProgress
from edgellm.cli.running_server import KEY_VARIABLE
from edgellm.client import LocalClient
from edgellm.config import socket_path
from edgellm.errors import CatalogError, RequestError
from edgellm.manager import Manager
from edgellm.model_loader import KEEP_ALIVE
from edgellm.paths import typed_path
from edgellm.ready import check_options
from edgellm.server.guard import is_loopback
from edgellm.server.listen import Listener, inherited_listeners, private_listener, tcp_listener
from edgellm.server.serve import serve
from edgellm.server.service import Service
from edgellm.server.settings import Settings
from edgellm.types import LoadOptions

_PORT = 8080
_SWITCH_SECONDS = 5e-4  # that a thread which reads a long prompt makes the engine's wait, not 5 ms
_ABANDON_SECONDS = 15.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="*",
        help="names, or paths of GGUF files; other stored models come in when requests name them",
    )
    group = parser.add_argument_group("where")
    group.add_argument("--socket", metavar="PATH", help=f"Unix socket (default {socket_path()})")
    group.add_argument(
        "--host",
        metavar="NAME",
        help="listen on TCP, not on a Unix socket (with --port: 127.0.0.1)",
    )
    group.add_argument(
        "--port", type=options.port, metavar="N", help=f"port of TCP (default {_PORT})"
    )
    group = parser.add_argument_group("who")
    group.add_argument(
        "--api-key",
        action="append",
        metavar="KEY",
        help=f"asked of every request; may be given again, or in {KEY_VARIABLE}",
    )
    group.add_argument(
        "--allow-host", action="append", metavar="NAME", help="a name this machine is called by"
    )
    group.add_argument(
        "--allow-origin", action="append", metavar="ORIGIN", help="a web page that may ask"
    )
    group = parser.add_argument_group("how much")
    group.add_argument(
        "--max-requests",
        type=int,
        default=Settings.max_requests,
        metavar="N",
        help=f"answers at once (default {Settings.max_requests})",
    )
    group.add_argument(
        "--timeout",
        type=float,
        default=Settings.deadline,
        metavar="SECONDS",
        help=f"that a request may take (default {Settings.deadline:.0f})",
    )
    group.add_argument(
        "--parallel",
        type=int,
        default=LoadOptions.max_num_seqs,
        metavar="N",
        help=f"computed side by side (default {LoadOptions.max_num_seqs})",
    )
    group.add_argument(
        "--keep-alive",
        type=float,
        default=KEEP_ALIVE,
        metavar="SECONDS",
        help="that a model which a request named stays loaded unused; negative: for ever "
        f"(default {KEEP_ALIVE:.0f})",
    )
    parser.add_argument(
        "--log", action="store_true", help="write a line of JSON to standard error per request"
    )
    parser.add_argument("--log-prompts", action="store_true", help="with --log: also what is asked")
    parser.add_argument("--private", action="store_true", help=argparse.SUPPRESS)
    options.add_load_options(parser)


def run(args: argparse.Namespace) -> int:
    load = options.load_options(args, max_num_seqs=args.parallel)
    check_options(load)  # before a request asks for a model
    settings = _settings(args)
    for model in args.models:
        options.fetch(model)
    sys.setswitchinterval(_SWITCH_SECONDS)
    if args.log:
        _log_requests()
    listeners = _listeners(args, settings.api_keys)
    tokens = [listener.token for listener in listeners if listener.token is not None]
    settings = replace(settings, api_keys=(*settings.api_keys, *tokens))
    try:
        for listener in listeners:
            if not args.private:
                print(f"edgellm: listening on {listener.where}", file=sys.stderr)
        with DownloadProgress() as report:
            asyncio.run(_serve(args, load, settings, listeners, report))
    finally:
        for listener in listeners:
            listener.close()
    if args.private:  # its parent has gone, or wants it gone
        _clear(_socket(args))
    return 0


def _clear(socket: Path) -> None:
    """Removes what lies beside a private socket, and its folder if nothing else does."""
    with suppress(OSError):  # Windows lets nobody remove what is open
        for path in (Path(f"{socket}.lock"), socket.with_name("stderr")):
            path.unlink(missing_ok=True)
        socket.parent.rmdir()


def _settings(args: argparse.Namespace) -> Settings:
    keys = [*(args.api_key or ()), *filter(None, [os.environ.get(KEY_VARIABLE)])]
    if not all(keys):
        raise RequestError("an API key is empty: leave --api-key out, or give one", "api_key")
    if any(key != key.strip() or not key.isprintable() for key in keys):
        raise RequestError(
            "an API key has blanks around it, or line ends: no request could bring it", "api_key"
        )
    if args.max_requests < 1:
        raise RequestError(
            f"--max-requests is {args.max_requests}: at least 1 is expected", "max_requests"
        )
    if not 0 < args.timeout < math.inf:
        raise RequestError(f"--timeout is {args.timeout}: more than 0 is expected", "timeout")
    return Settings(
        api_keys=tuple(keys),
        hosts=tuple(args.allow_host or ()),
        origins=tuple(args.allow_origin or ()),
        max_requests=args.max_requests,
        deadline=args.timeout,
        any_path=args.private,
        log_prompts=args.log_prompts,
    )


def _log_requests() -> None:
    log = logging.getLogger("edgellm.server")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def _listeners(args: argparse.Namespace, api_keys: tuple[str, ...]) -> list[Listener]:
    if args.host is None and args.port is None:
        inherited = inherited_listeners()
        for listener in inherited:
            _refuse_strangers(listener.host, api_keys)
        return inherited or [private_listener(_socket(args))]
    if args.socket is not None:
        raise RequestError("--socket and --host or --port: leave one out", "socket")
    host = "127.0.0.1" if args.host is None else args.host
    _refuse_strangers(host, api_keys)
    return [tcp_listener(host, _PORT if args.port is None else args.port)]


def _refuse_strangers(host: str | None, api_keys: tuple[str, ...]) -> None:
    """RequestError where other machines could ask without a key."""
    if host is not None and not is_loopback(host) and not api_keys:
        raise RequestError(
            f"other machines could reach {host} and no API key is set: give --api-key, or leave "
            "--host out",
            "host",
        )


def _socket(args: argparse.Namespace) -> Path:
    return socket_path() if args.socket is None else typed_path(args.socket)


async def _serve(
    args: argparse.Namespace,
    load: LoadOptions,
    settings: Settings,
    listeners: list[Listener],
    report: DownloadProgress,
) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    if args.private:
        _stop_with_parent(loop, stop)
    others = replace(load, adapters=(), draft=None)  # files that are made for one model
    manager = Manager(report, load.memory_limit, args.keep_alive, others, not args.private)
    async with LocalClient(manager) as client:
        service = Service(client, settings)
        service.reload_catalog()

        async def load_models() -> None:
            for model in args.models:
                await client.load(model, load)

        def reload_catalog() -> None:
            try:
                service.reload_catalog()
            except CatalogError as error:
                report.note(f"the catalogue stays as it was: {error}")

        _on_signal(loop, "SIGHUP", reload_catalog)
        for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
            _on_signal(loop, name, stop.set)
        await serve(service, listeners, load_models, stop)


def _on_signal(loop: asyncio.AbstractEventLoop, name: str, action: Callable[[], None]) -> None:
    """Has a signal do something, where the system has it."""
    number = getattr(signal, name, None)
    if number is None:
        return
    try:
        loop.add_signal_handler(number, action)
    except NotImplementedError:  # on Windows, whose loops know no signals
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(action))


def _stop_with_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Ends the server when standard input does: the process that started it has gone."""

    def watch() -> None:
        while os.read(0, 1 << 12):
            pass
        with suppress(RuntimeError):  # it has ended already
            loop.call_soon_threadsafe(stop.set)
        time.sleep(_ABANDON_SECONDS)
        os._exit(1)  # it hangs in native code, and nobody is left to kill it

    threading.Thread(target=watch, daemon=True).start()
