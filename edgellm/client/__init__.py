"""The asynchronous door into the engine, for every front end. Knows nothing of what is inside.

A Client behaves the same whether the engine runs in this process (LocalClient), in a server
(SocketClient) or in a child of this process (ChildClient). The names load on first use: whoever
talks to another process needs nothing of the engine in its own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgellm.client.child import ChildClient
    from edgellm.client.local import LocalClient
    from edgellm.client.protocol import Client
    from edgellm.client.socket import SocketClient
    from edgellm.model_loader import find_model

_HOMES = {
    "Client": "edgellm.client.protocol",
    "LocalClient": "edgellm.client.local",
    "SocketClient": "edgellm.client.socket",
    "ChildClient": "edgellm.client.child",
    "find_model": "edgellm.model_loader",
}

__all__ = ["ChildClient", "Client", "LocalClient", "SocketClient", "find_model"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'edgellm.client' has no attribute {name!r}")
    return getattr(import_module(home), name)
