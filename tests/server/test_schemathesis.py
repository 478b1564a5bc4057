"""Schemathesis drives a server over TCP by its own OpenAPI document: no fault of it, no hang."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import running
from tests.waiting import PATIENCE

# They change the model that is served, or say of themselves that they are not here (501).
_LEFT_OUT = "edgellm/v1/(load|unload|.*session)|api/(pull|push|create|copy|delete|blobs)"
_LEFT_OUT += "|/models$|/models/(un)?load|/props|/audio/|/slots/"


@pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_no_fault_and_no_hang(tmp_path: Path) -> None:
    manager = make_manager(MockModel(says("ok\nso")), context_length=256, num_blocks=256)
    with running(manager, tmp_path) as server:
        command = [str(Path(sys.executable).with_name("schemathesis")), "run"]
        command += [f"{server.tcp}/openapi.json", "--exclude-path-regex", _LEFT_OUT]
        command += ["--checks", "not_a_server_error", "--phases", "fuzzing"]
        command += ["--max-examples", "1", "--request-timeout", "120", "--seed", "1"]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE
        )
        assert done.returncode == 0, done.stdout[-4000:]
        assert server.ask("GET", "/health")[0] == 200 and server.service.in_flight == 0
