"""Finds a running server that can answer instead of an engine of this process. Loads no engine."""

import argparse
import os
from dataclasses import replace

from edgellm.client.naming import Served, is_meant
from edgellm.config import socket_path
from edgellm.errors import ConnectionFailed, ModelsBusy, RequestError
from edgellm.types import LoadOptions

KEY_VARIABLE = "EDGELLM_API_KEY"


def add_server_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server",
        metavar="ADDRESS",
        help="ask the server at this socket or http://HOST:PORT; auto: the one that runs here, "
        "if it has the model (default: load the model here)",
    )


async def find_server(args: argparse.Namespace, load: LoadOptions) -> Served | None:
    """The server that --server means; None when the model is to be loaded here.

    The server may have the model stored, and load it now. An address that is given must answer and
    have it; auto takes no for an answer, and for a model that is to be loaded in a way of its own.
    """
    if args.server is None:
        return None
    is_own_way = replace(load, max_num_seqs=LoadOptions().max_num_seqs) != LoadOptions()
    if args.server != "auto":
        if is_own_way:
            raise RequestError(
                "the server has loaded its models already: leave out --server, or the options of "
                "loading",
                "server",
            )
        return await _served(args.server, args.model)
    if is_own_way:
        return None
    try:
        return await _served(str(socket_path()), args.model)
    except (ConnectionFailed, RequestError, ModelsBusy):
        return None


async def _served(address: str, model: str) -> Served:
    from edgellm.client import SocketClient  # HTTP is for those who ask a server alone

    client = SocketClient(address, os.environ.get(KEY_VARIABLE))
    infos = await client.models()
    for info in infos:
        if is_meant(info, model):
            return Served(client, info.name)
    if found := await client.use(model):
        return Served(client, found.name)
    loaded = ", ".join(info.name for info in infos) or "none"
    raise RequestError(f"the server has no model {model!r}; loaded: {loaded}", "model")
