"""llama.cpp's slots: saved and restored under names, never at paths."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgellm.server.service import Said
from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import Running, running

PROMPT = [*range(40, 60)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sessions lie."""
    folder = tmp_path / "home" / "sessions"
    folder.mkdir(parents=True)
    monkeypatch.setattr("edgellm.sessions.sessions_dir", lambda: folder)
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    manager = make_manager(MockModel(says("ok")))
    loaded = manager.model()
    loaded.info = replace(loaded.info, max_num_seqs=2)
    with running(manager, tmp_path) as found:
        yield found


def completed(server: Running, **fields: Any) -> Any:
    asked = {"prompt": PROMPT, "temperature": 0, **fields}
    status, answer = server.ask("POST", "/completion", asked)
    assert status == 200, answer
    return answer


def act(server: Running, slot: str, action: str, **fields: Any) -> tuple[int, Any]:
    return server.ask("POST", f"/slots/{slot}?action={action}", fields)


def test_saved_under_a_name_and_restored(server: Running, tmp_path: Path) -> None:
    assert completed(server, id_slot=1)["id_slot"] == 1
    num_tokens = len(PROMPT) + len("ok") + 1
    status, saved = act(server, "1", "save", filename="a.bin")
    assert status == 200 and saved["timings"]["save_ms"] >= 0 and saved["n_written"] > 0
    assert (saved["id_slot"], saved["filename"], saved["n_saved"]) == (1, "a.bin", num_tokens)
    other = tmp_path / "other"
    other.mkdir()
    with running(make_manager(MockModel(says("ok"))), other) as after:
        status, restored = act(after, "0", "restore", filename="a.bin")
        assert status == 200 and restored["filename"] == "a.bin", restored
        assert restored["n_restored"] >= len(PROMPT) - 4
        assert completed(after)["timings"]["cache_n"] >= len(PROMPT) - 4
        assert act(after, "0", "save", filename="b")[0] == 200


def test_text_is_saved_as_its_tokens(server: Running) -> None:
    messages = [{"role": "user", "content": "hi"}]
    assert server.ask("POST", "/v1/chat/completions", {"messages": messages})[0] == 200
    assert server.service.said["mock", 0].written
    completed(server, prompt="hello", n_predict=1, stream=False)
    assert server.service.said["mock", 0] == Said("hello", [ord("o")])
    assert act(server, "0", "save", filename="c")[1]["n_saved"] == len("hello") + 2


def test_an_erased_slot_has_nothing(server: Running) -> None:
    completed(server)
    assert act(server, "0", "erase") == (200, {"id_slot": 0, "n_erased": len(PROMPT) + 3})
    assert act(server, "0", "erase")[1]["n_erased"] == 0
    status, refused = act(server, "0", "save", filename="d")
    assert status == 400 and "nothing to save" in refused["error"]["message"]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", "a\0b", "", "x" * 101, None])
@pytest.mark.parametrize("action", ["save", "restore"])
def test_a_path_is_no_name(server: Running, folder: Path, name: str | None, action: str) -> None:
    completed(server)
    status, refused = act(server, "0", action, filename=name)
    assert status == 400 and refused["error"]["type"] == "invalid_request_error"
    assert not [path for path in folder.parent.rglob("*") if path.is_file()]


def test_what_there_is_not(server: Running) -> None:
    assert act(server, "0", "restore", filename="gone")[0] == 404
    assert act(server, "0", "burn")[0] == 400 and act(server, "0", "")[0] == 400
    for slot in ("2", "-1", "x", "9" * 99):
        assert act(server, slot, "erase")[0] == 400, slot
    assert server.ask("POST", "/completion", {"prompt": "hi", "id_slot": 2})[0] == 400


def test_a_prompt_that_is_kept(server: Running) -> None:
    completed(server, keep_prompt=True)
    chat = {"messages": [{"role": "user", "content": "x"}], "keep_prompt": True}
    assert server.ask("POST", "/v1/chat/completions", chat)[0] == 200
    for wrong in ("yes", 1, []):
        status, refused = server.ask("POST", "/completion", {"prompt": "a", "keep_prompt": wrong})
        assert status == 400 and refused["error"]["param"] == "keep_prompt"


def test_a_model_that_goes_away_meanwhile_has_idle_slots(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.manager.Manager.stats", lambda manager: {})
    status, slots = server.ask("GET", "/slots?fail_on_no_slot=1")
    assert status == 200 and [slot["is_processing"] for slot in slots] == [False, False]
