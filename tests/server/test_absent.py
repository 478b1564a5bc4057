"""What other servers do and this one does not: each is refused in the shape of its own API."""

import json
from pathlib import Path

import pytest

from tests.mock_model import MockModel, make_manager, says
from tests.server.conftest import SAID
from tests.server.serving import Running, running

OLLAMA = [
    ("POST", "/api/pull"),
    ("POST", "/api/push"),
    ("POST", "/api/create"),
    ("POST", "/api/copy"),
    ("DELETE", "/api/delete"),
    ("POST", "/api/blobs/sha256:0"),
]
LLAMA_CPP = [
    ("POST", "/props"),
    ("POST", "/models"),
    ("DELETE", "/models"),
    ("POST", "/v1/audio/transcriptions"),
]


@pytest.mark.parametrize(("method", "path"), OLLAMA)
def test_ollama_refuses_in_a_sentence(server: Running, method: str, path: str) -> None:
    status, answer = server.ask(method, path, {"model": "none-such"})
    assert status == 501 and answer.keys() == {"error"} and "command line" in answer["error"]


@pytest.mark.parametrize(("method", "path"), LLAMA_CPP)
def test_llama_cpp_refuses_with_a_type(server: Running, method: str, path: str) -> None:
    status, answer = server.ask(method, path, {})
    assert status == 501 and answer["error"]["type"] == "not_supported_error"
    assert answer["error"]["message"] and answer["error"]["code"] == 501


def test_no_blob_is_here(server: Running) -> None:
    assert server.ask("GET", "/api/blobs/sha256:0") == (404, {"error": "blob not found"})


def test_unknown_routes(server: Running) -> None:
    for path in ("/v1/nothing", "/api/../../etc/passwd", "/slots/0/1"):
        status, answer = server.ask("GET", path)
        assert status == 404 and answer["error"]["type"] == "not_found_error", path


def test_models_come_and_go_by_name(tmp_path: Path) -> None:
    with running(make_manager(MockModel(says(SAID))), tmp_path) as own:
        assert own.ask("POST", "/models/load", {"model": "mock"}) == (200, {"success": True})
        for path in ("load", "unload"):
            for name in ("none-such", "../mock", ""):
                status, answer = own.ask("POST", f"/models/{path}", {"model": name})
                assert status == 404, (path, name, answer)
        assert own.ask("POST", "/models/unload", {"model": "mock"}) == (200, {"success": True})
        assert json.dumps(own.ask("GET", "/v1/models")[1]["data"]) == "[]"
