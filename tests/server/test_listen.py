"""Sockets: whose they are, which are stale, which are alive."""

import socket
import stat
from pathlib import Path

import pytest

from edgellm.config import socket_path
from edgellm.errors import RequestError
from edgellm.server.listen import tcp_listener, unix_listener


def test_only_the_owner_may_come_in(tmp_path: Path) -> None:
    path = tmp_path / "new" / "edgellm.sock"
    listener = unix_listener(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    listener.close()
    assert not path.exists()
    unix_listener(path).close()


def test_a_live_server_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "edgellm.sock"
    listener = unix_listener(path)
    with pytest.raises(RequestError, match="a server listens"):
        unix_listener(path)
    assert path.exists()
    listener.close()


def test_whoever_answers_without_a_lock_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "edgellm.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(RequestError, match="a server listens"):
            unix_listener(path)
    assert path.exists()  # and now nobody answers
    unix_listener(path).close()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "edgellm.sock"
    path.write_text("mine")
    with pytest.raises(RequestError, match="is no socket"):
        unix_listener(path)
    assert path.read_text() == "mine"


def test_a_folder_where_others_may_replace_the_socket_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(RequestError, match="written by others"):
        unix_listener(tmp_path / "edgellm.sock")
    tmp_path.chmod(0o1777)  # as /tmp is: what others made there stays
    unix_listener(tmp_path / "edgellm.sock").close()
    tmp_path.chmod(0o700)


def test_addresses_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="too long"):
        unix_listener(tmp_path / ("x" * 120))
    taken = tcp_listener("127.0.0.1", 0)
    port = taken.socket.getsockname()[1]
    with pytest.raises(RequestError, match="cannot be used"):
        tcp_listener("127.0.0.1", port)
    taken.close()


def test_where_the_socket_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.delenv("EDGELLM_SOCKET", raising=False)
    assert socket_path() == Path("/run/user/7/edgellm/edgellm.sock")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    assert socket_path() == tmp_path / "run" / "edgellm.sock"
    monkeypatch.setenv("EDGELLM_SOCKET", "/elsewhere.sock")
    assert socket_path() == Path("/elsewhere.sock")
