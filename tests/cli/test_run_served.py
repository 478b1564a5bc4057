"""`edgellm run` at a running server, and with a conversation that is kept."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgellm import cli
from edgellm.client import LocalClient
from edgellm.errors import NoSession
from edgellm.types import ModelInfo, Session
from tests.cli.scripted import Script, ScriptedModel
from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import Running, running
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setenv("EDGELLM_SOCKET", str(tmp_path / "edgellm.sock"))
    with running(make_manager(MockModel(says("served"))), tmp_path) as found:
        yield found


@pytest.mark.parametrize("address", ["auto", "unix", "tcp"])
def test_a_running_server_answers(
    server: Running, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = {"unix": server.unix, "tcp": server.tcp}.get(address, address)
    assert cli.main(["run", "mock", "hi", "--server", where, "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "served"


def test_auto_loads_what_the_server_has_not(
    server: Running, model_file: str, script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    script("loaded")
    for words in (["run", model_file, "hi"], ["run", model_file, "hi", "--threads", "1"]):
        assert cli.main([*words, "--server", "auto", "--temperature", "0"]) == 0
        assert capsys.readouterr().out == "loaded"
        script("loaded")
    assert cli.main(["run", "other", "hi", "--server", server.unix]) == 2
    assert "loaded: mock" in capsys.readouterr().err
    assert cli.main(["run", "mock", "hi", "--server", server.unix, "--threads", "1"]) == 2
    assert "leave out --server" in capsys.readouterr().err


def test_auto_lets_the_server_load_what_is_stored(
    server: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def use(client: object, name: str, keep_alive: float | None = None) -> ModelInfo | None:
        (mock,) = await server.service.client.models()
        return mock if name == "stored" else None

    monkeypatch.setattr(LocalClient, "use", use)
    assert cli.main(["run", "stored", "hi", "--server", "auto", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "served"


def test_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "mock", "hi", "--server", str(tmp_path / "none")]) == 1
    assert "edgellm serve" in capsys.readouterr().err


def test_a_servers_answer_needs_no_engine(server: Running) -> None:
    code = (
        "import sys; from edgellm import cli\n"
        "cli.main(['run', 'mock', 'hi', '--server', 'auto', '--temperature', '0'])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout == "served"
    assert not {"numpy", "edgellm.manager", "edgellm.kernels"} & {*done.stderr.split()}


def test_a_session_goes_on_where_it_ended(
    script: Script,
    model_file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: dict[str, Session] = {}

    def restore(model: object, name: str) -> Session:
        if name not in kept:
            raise NoSession(name)
        return kept[name]

    def save(model: object, name: str, ids: Any, messages: Any) -> None:
        kept[name] = Session(name, tuple(ids), len(ids), tuple(messages))

    monkeypatch.setattr(ScriptedModel, "restore_session", restore)
    monkeypatch.setattr(ScriptedModel, "save_session", save)
    for question, answer in (("a", "b"), ("c", "d")):
        script(answer)
        options = ["--session", "s", "--system", "x"] if question == "a" else ["--session", "s"]
        assert cli.main(["run", model_file, question, *options]) == 0
    said = [(message["role"], message["content"]) for message in kept["s"].messages]
    assert said == [
        ("system", "x"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")
    ]  # fmt: skip
    text = b"system:x\nuser:a\nassistant:b\nuser:c\nassistant:"
    assert bytes(i for i in kept["s"].token_ids if i < 256) == text + b"d"
    script("e")
    assert cli.main(["run", model_file, "q", "--session", "s", "--system", "y"]) == 2
    assert "--system" in capsys.readouterr().err
    assert cli.main(["run", model_file, "q", "--session", "s", "--raw"]) == 2
