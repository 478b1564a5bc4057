"""The thread team: waking and parking, closing, interrupts, forks, and who may call it."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgellm.config import cache_dir
from edgellm.errors import BackendError
from edgellm.kernels.cpu import CpuBackend, Executable
from edgellm.kernels.cpu.limits import usable_threads
from tests.kernels.cpu.programs import Array, decoder, pack, storage, streams
from tests.waiting import PATIENCE, comes_to_rest

ROOT = Path(__file__).parents[3]


class Prompt:
    """A decoder that runs the same prompt of 20 tokens again and again."""

    def __init__(self, backend: CpuBackend) -> None:
        program = decoder(2)
        (stream,) = streams(np.random.default_rng(0), 1, 20, 1)
        self.executable: Executable = backend.load(program, storage(program, 1))
        self.batch = pack([(stream, 20)], [19])

    def logits(self) -> Array:
        return self.executable.run(self.batch)["logits"]


def workers() -> set[threading.Thread]:
    """The threads of all teams but their callers."""
    return {t for t in threading.enumerate() if re.fullmatch(r"edgellm-\d+", t.name)}


@pytest.fixture
def own(backend: CpuBackend) -> Iterator[CpuBackend]:
    """A backend that a test may close. `backend` has its kernels compiled."""
    Prompt(backend)
    made = CpuBackend(cache_dir(), 2)
    yield made
    made.close()


def test_workers_park_and_wake(backend: CpuBackend) -> None:
    prompt = Prompt(backend)
    expected = prompt.logits()
    for pause in (0, 0, 0.0001, 0.0003, 0.001, 0.01) * 20:
        time.sleep(pause)
        np.testing.assert_array_equal(prompt.logits(), expected)


def test_many_steps(backend: CpuBackend) -> None:
    prompt = Prompt(backend)
    expected = prompt.logits()
    for _ in range(1000):
        np.testing.assert_array_equal(prompt.logits(), expected)


def test_an_idle_team_uses_no_processor_time(backend: CpuBackend) -> None:
    if backend.threads == 1:
        pytest.skip("one processor: a team without workers")
    Prompt(backend).logits()
    comes_to_rest(workers())


def test_close_ends_the_threads(own: CpuBackend) -> None:
    others = workers()
    prompt = Prompt(own)
    prompt.logits()
    started = workers() - others
    own.close()
    ended = [thread for thread in started if not thread.is_alive()]
    assert len(ended) == own.threads - 1
    with pytest.raises(BackendError, match="closed"):
        prompt.logits()
    own.close()


def test_close_of_a_parked_team(own: CpuBackend) -> None:
    Prompt(own)
    time.sleep(0.05)
    own.close()


def test_no_more_threads_than_processors() -> None:
    backend = CpuBackend(cache_dir(), 10_000)
    try:
        assert backend.threads == usable_threads()
    finally:
        backend.close()


def test_a_thread_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.kernels.cpu.team.usable_threads", lambda wanted: 3)
    start = threading.Thread.start

    def fail_second(thread: threading.Thread) -> None:
        if thread.name == "edgellm-2":
            raise RuntimeError("can't start new thread")
        start(thread)

    before = workers()
    monkeypatch.setattr(threading.Thread, "start", fail_second)
    with pytest.raises(BackendError, match="thread 3 of 3 cannot be started"):
        Prompt(CpuBackend(cache_dir(), 3))
    assert workers() == before


def test_python_threads_take_turns(backend: CpuBackend) -> None:
    wrong: list[int] = []
    expected = Prompt(backend).logits()

    def work(number: int) -> None:
        prompt = Prompt(backend)
        for _ in range(100):
            if not np.array_equal(prompt.logits(), expected):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of fork, Python 3.12
def test_a_forked_child_is_refused_and_does_not_hang(own: CpuBackend) -> None:
    prompt = Prompt(own)
    prompt.logits()
    child = os.fork()
    if child == 0:
        try:
            prompt.logits()
        except BackendError:
            own.close()
            os._exit(7)
        os._exit(1)
    deadline = time.monotonic() + PATIENCE
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 7
    prompt.logits()


# Runs steps until it is interrupted, again and again; the next result must be right.
INTERRUPTED = """
import signal
import numpy as np
from edgellm.config import cache_dir
from edgellm.kernels.cpu import CpuBackend
from tests.kernels.cpu.test_team import Prompt
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
backend = CpuBackend(cache_dir(), 2)
prompt = Prompt(backend)
expected = prompt.logits()
for _ in range(15):
    try:
        print("running", flush=True)
        while True:
            prompt.logits()
    except KeyboardInterrupt:
        assert np.array_equal(prompt.logits(), expected)
        print("right", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process here")
def test_ctrl_c_leaves_the_team_usable(own: CpuBackend) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process, process.stdout:
        for _ in range(15):
            assert process.stdout.readline() == "running\n"
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "right\n"
    assert process.returncode == 0  # and leaving without close() is no crash
