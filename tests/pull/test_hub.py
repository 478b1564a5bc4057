"""Hub files: what is asked, what is passed on, and how long a dead network may hold us."""

import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from edgellm.pull import hub
from edgellm.pull.report import SourceFailed
from edgellm.sources import HubSource
from tests.pull.conftest import CONTENT, Recorder, Server
from tests.waiting import PATIENCE

SOURCE = HubSource("owner/repo", "sub/m.gguf", "v1")
SHA = "cd" * 32


def test_the_bytes_come_from_where_the_hub_points(
    server: Server, tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = hub.HubFile(f"{server.address}/store", {"Authorization": "Bearer t"}, SHA)
    monkeypatch.setattr(hub, "find", lambda source: found)
    assert hub.fetch_hub(SOURCE, tmp_path / "whole", recorder) == SHA
    assert (tmp_path / "whole").read_bytes() == CONTENT
    assert server.asked[0]["Authorization"] == "Bearer t"


@pytest.mark.parametrize("etag", [SHA, "0123456789" * 4, None])
@pytest.mark.parametrize("location", ["https://hub.test/o/r/f", "https://store.test/f?sig=1"])
def test_the_token_stays_with_the_hub_and_only_a_sha256_vouches(
    etag: str | None, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    fake = ModuleType("huggingface_hub")
    fake.constants = SimpleNamespace(ENDPOINT="https://hub.test")  # type: ignore[attr-defined]
    fake.get_token = lambda: "secret"  # type: ignore[attr-defined]
    fake.hf_hub_url = lambda repo, file, revision: (repo, file, revision)  # type: ignore[attr-defined]

    def metadata(url: object, timeout: float) -> SimpleNamespace:
        asked.append((url, timeout))
        return SimpleNamespace(location=location, etag=etag)

    fake.get_hf_file_metadata = metadata  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    found = hub.find(SOURCE)
    assert asked == [(("owner/repo", "sub/m.gguf", "v1"), hub.TIMEOUT)]
    assert found.url == location
    assert found.sha256 == (SHA if etag == SHA else None)
    at_hub = location.startswith("https://hub.test")
    assert found.headers == ({"Authorization": "Bearer secret"} if at_hub else {})


def test_a_refusal_is_one_line(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: HubSource) -> hub.HubFile:
        raise ValueError("\n401 Client Error.\n\nAccess to the model is restricted.")

    monkeypatch.setattr(hub, "find", refuse)
    with pytest.raises(SourceFailed, match="^the hub cannot give it: 401 Client Error.$"):
        hub.fetch_hub(SOURCE, tmp_path / "whole", recorder)


def test_a_network_without_an_answer_holds_nobody(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def hang(source: HubSource) -> hub.HubFile:
        over.wait(2 * PATIENCE)
        raise ValueError("too late")

    monkeypatch.setattr(hub, "find", hang)
    monkeypatch.setattr(hub, "DEADLINE", 0.1)
    begun = time.monotonic()
    with pytest.raises(SourceFailed, match="no answer within"):
        hub.fetch_hub(SOURCE, tmp_path / "whole", recorder)
    over.set()
    assert time.monotonic() - begun < PATIENCE
