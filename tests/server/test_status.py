"""The page at `/` in a real browser, where there is one."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.server.conftest import SAID
from tests.server.serving import Running
from tests.waiting import PATIENCE

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.skipif(BROWSER is None, reason="no chromium here to show the page with")
def test_a_browser_shows_what_the_server_does(server: Running, tmp_path: Path) -> None:
    asked = {"prompt": "hi", "temperature": 0}
    assert server.ask("POST", "/completion", asked)[1]["content"] == SAID
    command = [
        *(BROWSER or "", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
        *(f"--user-data-dir={tmp_path}", "--virtual-time-budget=2500", f"{server.tcp}/"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    rows = done.stdout.partition('<tbody id="models">')[2].partition("</tbody>")[0]
    assert rows.startswith("<tr><td>mock</td><td>mock</td><td>64</td><td>0 of 1</td><td>0</td>")
    assert '<dd id="rate">0.0</dd>' in done.stdout and "serving since" in done.stdout
