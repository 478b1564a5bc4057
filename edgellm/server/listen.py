"""The sockets that a server listens on. Knows nothing of HTTP.

A Unix socket's file is made under a mask that lets its owner alone in, in a folder of the owner's.
A lock file beside it is held while the server lives, so that a socket without one is known to be
stale; whoever answers there in spite of that is left alone. Where there are no Unix sockets, a
file in that place tells of a port of this machine and the key to it.
"""

import os
import secrets
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from edgellm import token_file
from edgellm.errors import ConnectionFailed, RequestError

_MAX_PATH = 107  # bytes, in sockaddr_un
_BACKLOG = 128
# A port that was used lately may be used again. On Windows that needs no option, and the one of
# this name would let another program take the port over.
_PORT_OPTION = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
_FIRST_INHERITED = 3  # sd_listen_fds(3)


@dataclass
class Listener:
    """A socket that listens; `where` is its address for people. close: removes what it made.

    token: a key that requests must bring.
    """

    socket: socket.socket
    where: str
    lock: IO[str] | None = None
    path: Path | None = None
    token: str | None = None

    @property
    def host(self) -> str | None:
        """The address that a socket of TCP has; None for others."""
        is_tcp = self.socket.family in (socket.AF_INET, socket.AF_INET6)
        return str(self.socket.getsockname()[0]) if is_tcp else None

    def close(self) -> None:
        self.socket.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        if self.lock is not None:
            self.lock.close()


def private_listener(path: Path) -> Listener:
    """Listens where this user alone comes in, in the way that the system has."""
    return unix_listener(path) if token_file.has_unix_sockets() else token_listener(path)


def token_listener(path: Path) -> Listener:
    """Listens on a free port of this machine, with a key that only this user can read.

    RequestError when a server is there already.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and _answers(path):
        raise _taken(path)
    listener = tcp_listener("127.0.0.1", 0)
    listener.path, listener.token = path, secrets.token_urlsafe(32)
    token_file.write_token_file(path, listener.where, listener.token)
    return listener


def _answers(path: Path) -> bool:
    """Whether somebody listens where a token file says."""
    try:
        address, _ = token_file.read_token_file(path)
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname or "", parts.port or 0), 1.0):
            return True
    except (ConnectionFailed, OSError, ValueError):
        return False


def unix_listener(path: Path) -> Listener:
    """Listens on a Unix socket that only this user reaches.

    RequestError when a server is there already, or the path cannot be used.
    """
    path = path.absolute()
    if len(os.fsencode(path)) > _MAX_PATH:
        raise RequestError(
            f"{path} is too long for a socket's path ({_MAX_PATH} bytes): --socket gives another",
            "socket",
        )
    _make_folder(path.parent)
    lock = _lock(path)
    try:
        _remove_stale(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            listening.bind(os.fspath(path))
        finally:
            os.umask(mask)
        listening.listen(_BACKLOG)
    except BaseException:
        lock.close()
        raise
    return Listener(listening, str(path), lock, path)


def tcp_listener(host: str, port: int) -> Listener:
    """Listens on the first address of the host; port 0 is one that is free."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise RequestError(f"{host}: {error.strerror}", "host") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, _PORT_OPTION, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise RequestError(f"{host}:{port} cannot be used: {error.strerror}", "port") from None
    shown = f"[{host}]" if ":" in host else host
    return Listener(listening, f"http://{shown}:{listening.getsockname()[1]}")


def inherited_listeners() -> list[Listener]:
    """The sockets that systemd opened for this process (LISTEN_FDS); none when it did not."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    told = os.environ.get("LISTEN_FDS", "")
    count = int(told) if told.isdecimal() else 0
    listeners = []
    for number in range(_FIRST_INHERITED, _FIRST_INHERITED + count):
        os.set_inheritable(number, False)
        listening = socket.socket(fileno=number)
        listeners.append(Listener(listening, f"the socket given as {number}"))
    return listeners


def _make_folder(folder: Path) -> None:
    """Makes the folder for this user alone. RequestError for one that others may write in."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise RequestError(f"{folder}: {error.strerror}", "socket") from None
    others_write = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
    if found.st_uid not in (os.getuid(), 0) or others_write:
        raise RequestError(
            f"{folder} can be written by others: a socket there could be replaced; "
            "--socket gives another place",
            "socket",
        )


def _lock(path: Path) -> IO[str]:
    """The lock beside the socket, held. RequestError when another server holds it."""
    import fcntl  # which only Unix has

    lock = open(os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise _taken(path) from None
    return lock


def _remove_stale(path: Path) -> None:
    """Removes the socket of a server that was killed."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise RequestError(f"{path} is there and is no socket: --socket gives another", "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError:
            pass
    raise _taken(path)


def _taken(path: Path) -> RequestError:
    return RequestError(
        f"a server listens on {path} already: use it, stop it, or give another --socket", "socket"
    )
