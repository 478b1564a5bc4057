"""`edgellm run` with a scripted model."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scripted import Script, ScriptedModel
from tests.mock_model import MockModel, says


@pytest.fixture
def model_file(tmp_path: Path) -> str:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"never read")
    return str(file)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Makes `run` talk to a scripted model; `stdin` is what is piped in, None is a terminal."""

    def install(
        text: str = "The sky is blue.",
        stdin: bytes | None = None,
        logits: Any = None,
        source: str = "",
    ) -> ScriptedModel:
        model = ScriptedModel(MockModel(logits or says(text)), source=source)
        model.install(monkeypatch)
        piped = io.TextIOWrapper(io.BytesIO(stdin or b""), encoding="utf-8")
        monkeypatch.setattr(piped, "isatty", lambda: stdin is None)
        monkeypatch.setattr(sys, "stdin", piped)
        return model

    return install
