"""Models that come in because a request names them, and Ollama's keep_alive."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgellm import manager as manager_module
from edgellm.errors import RequestError
from edgellm.manager import Manager
from edgellm.pull import Stored
from edgellm.server.fields import keep_alive
from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import Running, running
from tests.test_model_pool import Models
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One model that was loaded at the start, "mock", and those of Models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manager_module, "ModelLoader", lambda *_: Models())
        manager = make_manager(MockModel(says("mine")), manager=Manager(memory=100))
    with running(manager, tmp_path_factory.mktemp("socket")) as found:
        yield found


def chat(server: Running, model: str, **fields: Any) -> Any:
    messages = [{"role": "user", "content": "hi"}]
    asked = {"model": model, "messages": messages, "stream": False, "options": {"temperature": 0}}
    status, answer = server.ask("POST", "/api/chat", {**asked, **fields})
    assert status == 200, answer
    return answer


def names(server: Running) -> list[str]:
    return [model["name"] for model in server.ask("GET", "/api/ps")[1]["models"]]


def test_a_stored_model_comes_in_by_its_name(server: Running) -> None:
    answer = chat(server, "a:latest", keep_alive=-1)
    assert (answer["model"], answer["message"]["content"][:4]) == ("a", "xxxx")
    assert names(server) == ["mock", "a"]
    fields = {"model": "b", "prompt": "hi", "temperature": 0, "max_tokens": 3}
    status, completed = server.ask("POST", "/v1/completions", fields)
    assert (status, completed["model"], completed["choices"][0]["text"]) == (200, "b", "xxx")
    status, tokens = server.ask("POST", "/tokenize", {"content": "ab", "model": "a"})
    assert (status, tokens) == (200, {"tokens": [97, 98]})


def test_what_is_stored_is_listed(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    chat(server, "a", keep_alive=-1)
    stored = [Stored(name, ("x",), "0" * 64, 7, "2026-01-01", None) for name in ("a", "z")]
    monkeypatch.setattr("edgellm.pull.stored_models", lambda: stored)
    listed = [entry["id"] for entry in server.ask("GET", "/v1/models")[1]["data"]]
    assert (listed.count("a"), listed.count("z"), listed[0]) == (1, 1, "mock")
    assert server.ask("GET", "/v1/models/z")[1]["id"] == "z"
    assert server.ask("GET", "/v1/models/y")[0] == 404
    tags = {model["name"]: model for model in server.ask("GET", "/api/tags")[1]["models"]}
    assert tags["z"]["size"] == 7 and tags["a"]["size"] != 7
    assert "z" not in names(server)


def test_no_path_is_loaded(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    before = names(server)
    status, answer = server.ask("POST", "/v1/completions", {"model": str(file), "prompt": "hi"})
    assert status == 404 and "model.gguf" in answer["error"]["message"]
    assert names(server) == before


def test_a_model_goes_when_its_time_is_over(server: Running) -> None:
    chat(server, "a", keep_alive="0s")
    wait_until(lambda: "a" not in names(server))
    asked = {"model": "a", "keep_alive": "1h"}
    status, answer = server.ask("POST", "/api/generate", {**asked, "stream": False})
    assert (status, answer["done_reason"]) == (200, "load")
    time.sleep(0.3)
    running = {model["name"]: model for model in server.ask("GET", "/api/ps")[1]["models"]}
    ends = [datetime.fromisoformat(running[name]["expires_at"]) for name in ("a", "mock")]
    hours = [(end - datetime.now(UTC)).total_seconds() / 3600 for end in ends]
    assert 0.9 < hours[0] < 1 and hours[1] > 1e5
    asked["keep_alive"] = 0  # type: ignore[assignment]
    status, answer = server.ask("POST", "/api/generate", {**asked, "stream": False})
    assert (status, answer["done_reason"]) == (200, "unload")
    wait_until(lambda: "a" not in names(server))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (0, 0.0),
        (-1, -1.0),
        (12.5, 12.5),
        ("90", 90.0),
        ("5m", 300.0),
        ("-1m", -60.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
    ],
)
def test_times_are_seconds_or_durations(value: Any, seconds: float | None) -> None:
    assert keep_alive({"keep_alive": value}) == seconds


@pytest.mark.parametrize("value", ["", "m", "5 minutes", "1h-3m", True, [], {}, "1e9999", "nan"])
def test_other_times_are_refused(value: Any) -> None:
    with pytest.raises(RequestError, match="keep_alive"):
        keep_alive({"keep_alive": value})
