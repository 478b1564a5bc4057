"""Commands that write files leave nothing when they are told to end."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgellm.cli import main
from edgellm.convert import write as converting
from edgellm.quantize import write as quantising
from tests.convert.checkpoints import write_checkpoint
from tests.models.tiny import write_tiny

SIGNALS = [getattr(signal, n) for n in ("SIGTERM", "SIGHUP") if hasattr(signal, n)]


@pytest.fixture
def usual() -> Iterator[None]:
    """Signals that end the process, as a shell has them."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def sending(function: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The function, which is told to end when it is called for the second time."""
    calls: list[None] = []

    def called(*args: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == 2:
            os.kill(os.getpid(), number)
        return function(*args, **named)

    return called


@pytest.mark.skipif(os.name == "nt", reason="signals that end processes are Unix's")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.usefixtures("usual")
def test_quantising(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    model = write_tiny(tmp_path, "llama", format_name="F16")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(quantising, "_strips", sending(quantising._strips, number))
    with pytest.raises(SystemExit) as ended:
        main(["quantize", str(model), str(tmp_path / "out.gguf"), "--type", "Q8_0"])
    assert ended.value.code == 128 + number
    assert sorted(tmp_path.iterdir()) == before
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.skipif(os.name == "nt", reason="signals that end processes are Unix's")
@pytest.mark.parametrize("type_name", ["F16", "Q4_K_M"])
@pytest.mark.usefixtures("usual")
def test_converting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_name: str) -> None:
    write_checkpoint(tmp_path / "model", "LlamaForCausalLM")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(converting, "_strips", sending(converting._strips, signal.SIGTERM))
    with pytest.raises(SystemExit):
        main(["convert", str(tmp_path / "model"), str(tmp_path / "out.gguf"), "--type", type_name])
    assert sorted(tmp_path.rglob("*")) == before
