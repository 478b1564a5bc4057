"""Where there are no Unix sockets: a file that tells a server's address and key to its user alone.

It lies where the socket would. Knows nothing of servers and clients.
"""

import socket
from pathlib import Path

from edgellm.errors import ConnectionFailed
from edgellm.new_file import new_file


def has_unix_sockets() -> bool:
    """Whether this system has them, as Python sees it."""
    return hasattr(socket, "AF_UNIX")


def write_token_file(path: Path, address: str, token: str) -> None:
    """Makes the file, readable for this user alone, at once with all it holds."""
    with new_file(path, 0o600) as file:
        file.write(f"{address}\n{token}\n".encode())


def read_token_file(path: Path) -> tuple[str, str]:
    """Address and key. ConnectionFailed when there is no such file."""
    try:
        address, token = path.read_text("utf-8").split()
    except (OSError, ValueError):
        raise ConnectionFailed(
            f"{path} tells of no server: start one with `edgellm serve`"
        ) from None
    return address, token
