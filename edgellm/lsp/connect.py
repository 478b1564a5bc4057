"""Finds what answers: a server that runs, else an engine in a child process."""

from dataclasses import dataclass

from edgellm.client import ChildClient, Client, SocketClient
from edgellm.client.naming import Served, is_meant
from edgellm.config import socket_path
from edgellm.errors import BackendError, ConnectionFailed, RequestError
from edgellm.holes import Hole
from edgellm.types import LoadOptions, ModelInfo


@dataclass(frozen=True)
class Asked:
    """Whom to ask. server: an address that must answer; None: the user's own server, if it runs.

    model: a name or path, loaded in a child with `load` where no server has it; None: the first
    of the server's that can fill in the middle.
    """

    server: str | None = None
    api_key: str | None = None
    model: str | None = None
    load: LoadOptions | None = None


async def find(asked: Asked) -> Served:
    """EdgeLLMError when nothing can answer; it says what to do."""
    server = SocketClient(asked.server or str(socket_path()), asked.api_key)
    try:
        infos = await server.models()
        meant = [info for info in infos if asked.model is None or is_meant(info, asked.model)]
        if meant or asked.server is not None or asked.model is None:
            return await _of_server(server, meant, infos)
    except ConnectionFailed:
        if asked.server is not None or asked.model is None:
            raise
    assert asked.model is not None
    child = await ChildClient.start()
    try:
        info = await child.load(asked.model, asked.load)
        await child.fim_prompt(Hole("", ""), 1, model=info.name)
    except BaseException:
        await child.close()
        raise
    return Served(child, info.name)


async def _of_server(client: Client, meant: list[ModelInfo], all_: tuple[ModelInfo, ...]) -> Served:
    """The first of the models that can fill in the middle."""
    error: BackendError | None = None
    for info in meant:
        try:
            await client.fim_prompt(Hole("", ""), 1, model=info.name)
            return Served(client, info.name)
        except BackendError as refusal:
            error = refusal
    if error is not None:
        raise error
    loaded = ", ".join(info.name for info in all_) or "none"
    raise RequestError(f"the server has no such model; loaded: {loaded}", "model")
