"""Processes give what threads give, and one that is killed hangs nobody."""

import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import as_completed
from pathlib import Path

import numpy as np
import pytest

from edgellm.errors import BackendError, RequestError
from edgellm.gguf_loader import open_gguf
from edgellm.quantize import workers as module
from edgellm.quantize.plan import make_plan
from edgellm.quantize.process_pool import _signals_later
from edgellm.quantize.workers import workers
from edgellm.quantize.write import write_quantized
from tests.gguf_writer import F16, write_gguf

COLUMNS, ROWS = 512, 300


def test_processes_are_for_much_work() -> None:
    with workers(2, 1000) as few, workers(1, 1 << 40) as one, workers(2, 1 << 40) as many:
        pids = [pool.submit(os.getpid).result() for pool in (few, one, many)]
    assert pids[:2] == 2 * [os.getpid()] and pids[2] != os.getpid()


def test_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float16)
    shape = "blk.0.ffn_up.weight", (COLUMNS, ROWS), F16
    path = write_gguf(tmp_path / "in.gguf", {"general.architecture": "llama"}, [(*shape, values)])
    written = []
    for few in (1 << 25, 0):
        monkeypatch.setattr(module, "_FEW", few)
        out = tmp_path / f"{few}.gguf"
        with open_gguf(path) as file:
            write_quantized(file, make_plan(file, "Q4_K"), out, 2)
        written.append(out.read_bytes())
    assert written[0] == written[1]


def test_errors_come_back_from_processes() -> None:
    error = pickle.loads(pickle.dumps(RequestError("tensor 'a'", "field")))
    assert (str(error), error.field) == ("tensor 'a'", "field")


def test_one_that_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", 0)
    with pytest.raises(BackendError, match="ended from outside"), workers(2, 1) as pool:
        pid = pool.submit(os.getpid).result()
        waiting = [pool.submit(signal.pause) for _ in range(4)]  # one at least is that process's
        os.kill(pid, signal.SIGKILL)
        for future in as_completed(waiting):
            future.result()


_ENDED = """
import os, signal
from multiprocessing import active_children
import numpy as np
from edgellm.kernels.formats import by_name
from edgellm.quantize import workers as module
from edgellm.quantize.strips import converted

if __name__ == "__main__":
    module._FEW = 0
    stored = np.zeros((1, 4096, 4096), np.uint8)  # 64 strips, each more than a pipe holds
    with module.workers(2, 1) as pool:
        strips = converted("x", stored, by_name("F32"), by_name("Q8_0"), None, pool, 2)
        next(strips)
        strips.close()
        for process in active_children():
            os.kill(process.pid, signal.SIGTERM)
        raise SystemExit(7)
"""


def test_a_whole_group_that_is_told_to_end(tmp_path: Path) -> None:
    """As `timeout` and terminals tell it: processes end while strips wait for them."""
    (tmp_path / "ended.py").write_text(_ENDED)
    command = [sys.executable, str(tmp_path / "ended.py")]
    done = subprocess.run(command, timeout=300, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (7, "")


_HALF = """
import os, signal, struct, sys, time
from multiprocessing import active_children
from pathlib import Path
from edgellm.errors import BackendError
from edgellm.quantize import workers as module

def half(marker, number):
    connection = sys._getframe(1).f_locals["connection"]
    connection._send(struct.pack("!i", 1000) + b"not all of it")
    marker.touch()
    os.kill(os.getpid(), number)
    signal.pause()

def told_to_end(pool):
    pool.submit(half, marker, signal.SIGCONT)
    while not marker.exists():
        time.sleep(0.01)
    for process in active_children():
        os.kill(process.pid, signal.SIGTERM)
    raise SystemExit(7)

def killed(pool):
    written = pool.submit(half, marker, signal.SIGKILL)
    others = [pool.submit(abs, -i) for i in range(100)]
    try:
        written.result()
    except BackendError:
        raise SystemExit(7)

if __name__ == "__main__":
    module._FEW, marker = 0, Path(__file__).with_suffix(".written")
    with module.workers(2, 1) as pool:
        {"told_to_end": told_to_end, "killed": killed}[sys.argv[1]](pool)
"""


@pytest.mark.parametrize("way", ["told_to_end", "killed"])
def test_one_that_ends_while_it_writes(way: str, tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(_HALF)
    command = [sys.executable, str(tmp_path / "half.py"), way]
    done = subprocess.run(command, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (7, "")


def test_signals_wait_until_processes_are_started() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), _signals_later():
            signal.raise_signal(signal.SIGINT)
            passed = True
        assert passed
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
