"""Backends by name: made once, shared, and clear about what they cannot do."""

import pytest

from edgellm import backends
from edgellm.backends import Backends, Row, backend_name
from edgellm.errors import BackendError, RequestError


class Fake:
    closed = 0

    def load(self, program: object, kv: object) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake()
    rows = {"fake": Row(lambda threads, note: made, "f16")}  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(backends, "ROWS", rows)
    return made


def test_names() -> None:
    assert backend_name("auto") == "cpu"
    assert backend_name("reference") == "reference"
    with pytest.raises(BackendError, match="opencl"):
        backend_name("opencl")
    with pytest.raises(RequestError, match="expected one of auto, cpu, reference") as found:
        backend_name("abacus")
    assert found.value.field == "backend"


def test_one_of_each_is_made_and_closed(fake: Fake) -> None:
    made = Backends(print)
    first: object = made.get("fake")
    again: object = made.get("fake")
    assert first is fake
    assert again is fake
    made.close()
    made.close()
    assert fake.closed == 1


def test_a_team_of_threads_does_not_change_its_size(fake: Fake) -> None:
    made = Backends(print)
    made.get("fake", 2)
    assert made.get("fake") is made.get("fake", 2)
    with pytest.raises(RequestError, match="2 threads already") as found:
        made.get("fake", 3)
    assert found.value.field == "threads"
    own = Backends(print)
    own.get("fake")
    with pytest.raises(RequestError, match="its own choice"):
        own.get("fake", 2)
