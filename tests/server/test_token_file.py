"""Systems without Unix sockets: a port of this machine, and a file that only its user reads."""

import asyncio
import stat
from pathlib import Path

import pytest

from edgellm import token_file
from edgellm.client import LocalClient, SocketClient
from edgellm.errors import ConnectionFailed, EdgeLLMError, RequestError
from edgellm.server.listen import private_listener
from edgellm.server.settings import Settings
from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import serving


@pytest.fixture(autouse=True)
def without_unix_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_file, "has_unix_sockets", lambda: False)


def test_whoever_reads_the_file_comes_in(tmp_path: Path) -> None:
    path = tmp_path / "run" / "edgellm.sock"
    listener = private_listener(path)
    assert listener.token is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().split() == [listener.where, listener.token]

    async def main() -> None:
        manager = make_manager(MockModel(says("ok")))
        keys = Settings(api_keys=(str(listener.token),))
        async with LocalClient(manager) as local, serving(local, listener, keys):
            (info,) = await SocketClient(str(path)).models()
            assert info.name == "mock"
            with pytest.raises(EdgeLLMError, match="Invalid API Key"):
                await SocketClient(listener.where).models()
            with pytest.raises(RequestError, match="a server listens"):
                private_listener(path)

    asyncio.run(main())
    assert not path.exists()
    with pytest.raises(ConnectionFailed, match="edgellm serve"):
        asyncio.run(SocketClient(str(path)).models())


def test_the_file_of_a_killed_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "edgellm.sock"
    for left in ("http://127.0.0.1:1\nold\n", "not what it was"):
        path.write_text(left)
        listener = private_listener(path)
        assert listener.token in path.read_text() and listener.token != "old"
        listener.close()
