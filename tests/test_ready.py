"""What is bound is given back when the rest of loading fails."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgellm import backends
from edgellm.backend_kinds import Row
from edgellm.errors import BackendError
from edgellm.gguf_loader import open_gguf
from edgellm.models import read_config
from edgellm.ready import make_ready
from edgellm.types import LoadOptions
from tests.mock_model import ByteTokenizer
from tests.models.heads import add_head
from tests.models.tiny import write_tiny


class Counting:
    """A backend whose executables only count. most: as many can be loaded."""

    threads = None

    def __init__(self, most: int) -> None:
        self.most, self.loaded, self.closed = most, 0, 0

    def load(self, program: object, kv: object) -> Any:
        if self.loaded == self.most:
            raise BackendError("no room for another")
        self.loaded += 1
        return SimpleNamespace(store=None, close=self._close)

    def _close(self) -> None:
        self.closed += 1

    def close(self) -> None:
        pass


def fail(*arguments: object) -> Any:
    raise BackendError("no room for another")


@pytest.mark.parametrize("step", ["the head's program", "compiled_find", "Scheduler", "HeadRunner"])
def test_a_failure_behind_the_first_program_closes_what_is_bound(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Counting(1 if step == "the head's program" else 2)
    row = Row(lambda threads, device, audiences: backend, "f16")
    monkeypatch.setattr(backends, "ROWS", {"cpu": row})
    monkeypatch.setattr("edgellm.ready.compiled_find", lambda cache: None)
    if backend.most == 2:
        monkeypatch.setattr(f"edgellm.ready.{step}", fail)
    with open_gguf(write_tiny(tmp_path, "glm4", add_head)) as file:
        share = backends.Backends(print)
        with pytest.raises(BackendError, match="no room for another"):
            make_ready(
                file,
                read_config(file),
                LoadOptions(backend="cpu"),
                share,
                vocabulary=ByteTokenizer(),
            )
        share.close()
    assert backend.loaded == backend.closed == backend.most
